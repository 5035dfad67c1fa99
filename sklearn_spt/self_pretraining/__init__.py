"""Self-Pretraining: the classifier, its trainer, and what observes a fit."""
