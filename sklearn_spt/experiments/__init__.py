"""The paper's tables and figures: ``python -m sklearn_spt.experiments --help``."""
