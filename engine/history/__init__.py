"""Journals read back: a DuckDB index over them and the small named queries that the console asks.

tail.py      the new complete lines of a journal file
rows.py      a journal line as rows of the index's tables (pure)
schema.py    those tables
index.py     `History`: opens the index and keeps it up to date
runs.py  tables.py  chunks.py  series.py  log.py    the queries; each takes a cursor and returns dataclasses
"""

from engine.history.index import History, Refresh

__all__ = ["History", "Refresh"]
