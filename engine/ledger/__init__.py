"""Committed state: one file per epoch, from which everything resumes."""
