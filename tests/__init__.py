"""Tidemark's tests. CONTRIBUTING.md says which folder holds which tests and which helpers."""
