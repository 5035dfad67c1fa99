"""Fitted classifiers on disk: save and load without pickles, and export for other libraries."""
