"""Nets: `BertClassifier`, its encoder and losses, and the training loop."""
