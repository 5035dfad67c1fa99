"""The command line ``python -m sklearn_spt``, and the versions of what is installed."""
