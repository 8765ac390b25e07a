"""Chunks: how a table is split into ranges that are read in parallel, and why."""
