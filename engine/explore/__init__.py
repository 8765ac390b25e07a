"""Queries over published data.

Rows of a table, SQL over mirrors and change logs, a key's history, and a table at an earlier time.
"""

from engine.explore.reading import read

__all__ = ["read"]
