"""Rows of a Delta table, read back."""
