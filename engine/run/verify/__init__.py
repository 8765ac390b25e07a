"""Compares mirrors with their source, exactly, while both change (docs/verification.md)."""
