"""Chunks: how a table is cut into ranges that are read in parallel, and why so."""
