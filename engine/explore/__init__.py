"""Queries over published data: rows of a table, SQL over mirrors and change logs, a key's history, a table at an earlier time."""

from engine.explore.reading import read

__all__ = ["read"]
