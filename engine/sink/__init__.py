"""Destinations: each applies committed epochs exactly once."""
