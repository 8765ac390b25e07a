"""Epochs: what the coordinator commits, and how it is delivered."""
