"""Reads a destination back."""
