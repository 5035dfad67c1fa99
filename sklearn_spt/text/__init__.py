"""Texts: cleaning, token ids, and the files of pretrained encoders."""
