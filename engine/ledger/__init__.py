"""Committed state: one file an epoch, from which everything resumes."""
