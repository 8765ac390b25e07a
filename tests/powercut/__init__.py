"""Simulated power cuts: file operations are recorded, and those that were not synced are undone."""
