"""Journals read back: a DuckDB index over them, and the small named queries of the console.

journal_slices.py   the new complete lines of a journal file
journal_rows.py     a journal line as rows of the index's tables (pure)
index_schema.py     those tables
index.py            `History`: opens the index and keeps it up to date
*_queries.py, runs.py, series.py, redumps.py   the queries; each takes a cursor and returns dataclasses
"""

from engine.history.index import History, Refresh

__all__ = ["History", "Refresh"]
