"""How many chunks of each table are in each state. A table is counted again only if its counts can have changed.

The counts of a table follow from the newest run, from the table's own lines in the journals, and from the epochs that
commit its reads. Rows are only added, so their number tells whether they are the same; if some are deleted, `History`
clears what it keeps. Epochs matter only to a table that has reads and unpublished chunks.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from engine.history.chunk_queries import chunk_progress
from engine.history.fetch import Cursor, aware, memory, part


class Count(NamedTuple):
    """The chunks of a table, as in `table_queries.TableProgress`."""

    chunks: int = 0
    waiting: int = 0
    reading: int = 0
    failed: int = 0
    finished: int = 0
    published: int = 0
    rows: int = 0
    first_started: datetime | None = None
    last_ended: datetime | None = None


class _Mark(NamedTuple):
    """What the counts of a table follow from, without epochs."""

    run: str | None
    """The newest run."""
    rows: int
    """Those of the index that belong to the table."""
    reads: int


_COUNTS = (
    chunk_progress("tbl IN (SELECT unnest($tables))")
    + """
SELECT tbl, count(*), count(*) FILTER (state = 'waiting'), count(*) FILTER (state = 'reading'), \
count(*) FILTER (state = 'failed'),
       count(*) FILTER (state = 'finished'), count(*) FILTER (state = 'published'),
       coalesce(sum(rows) FILTER (state IN ('finished', 'published')), 0)::BIGINT, min(started), max(ended)
FROM progress GROUP BY tbl
"""
)
_READ = ("planned", "planned_chunk", "split", "stated", "parked", "resumed", "assigned", "failed", "finished")
_ROWS = " UNION ALL ".join(f"SELECT '{name}' AS name, tbl FROM {name} WHERE pipeline = $pipeline" for name in _READ)
_MARKS = f"""
SELECT tbl, (SELECT arg_max(run, ts) FROM begun WHERE pipeline = $pipeline), count(*), \
count(*) FILTER (name = 'finished')
FROM ({_ROWS}) WHERE tbl IS NOT NULL GROUP BY tbl
"""


def counts(cursor: Cursor, pipeline: str) -> dict[str, Count]:
    """The chunks of each table that the journals name; none of a table without a plan."""
    cache: dict[str, tuple[_Mark, Count]] = memory(
        cursor, ("counts", pipeline)
    )  # before the rows, which may be deleted meanwhile
    marks = part(cursor, _marks, pipeline)
    for gone in cache.keys() - marks.keys():
        del cache[gone]
    again = [table for table, mark in marks.items() if table not in cache or _may_differ(mark, *cache[table])]
    if again:
        new_counts = _counted(cursor, pipeline, again)
        cache.update((table, (marks[table], new_counts.get(table, Count()))) for table in again)
    return {table: count for table, (_, count) in cache.items()}


def _may_differ(mark: _Mark, before: _Mark, count: Count) -> bool:
    return mark != before or (mark.reads > 0 and count.published < count.chunks)


def _marks(cursor: Cursor, pipeline: str) -> dict[str, _Mark]:
    rows = cursor.execute(_MARKS, {"pipeline": pipeline}).fetchall()
    return {table: _Mark(*mark) for table, *mark in rows}


def _counted(cursor: Cursor, pipeline: str, tables: Collection[str]) -> dict[str, Count]:
    parameters = {"pipeline": pipeline, "table": None, "tables": list(tables)}
    return {row[0]: Count._make(map(aware, row[1:])) for row in cursor.execute(_COUNTS, parameters).fetchall()}
