"""Chunks that were split because they were larger than planned: the reader stopped, and the rest became other chunks.

The journal announces the nearer bound of such a chunk between its assignment and its end. A chunk that is merely
planned again, by a run that lost its plan, is assigned after that. The chunks of the rest name their parent, except in
journals of earlier versions.
"""

from dataclasses import dataclass

from engine.history.chunk_queries import PLAN
from engine.history.fetch import Cursor, fetch


@dataclass(frozen=True)
class ChunkSplit:
    """A chunk whose rest was split off."""

    chunk: int
    upper: str | None
    """The bound at which the reader stopped."""
    planned_upper: str | None
    """The bound before that."""
    into: tuple[int, ...] = ()
    """The chunks that the rest became; empty until they are planned, and for journals of earlier versions."""


_SPLITS = (
    PLAN
    + """
, announced AS (
    SELECT c.tbl, c.chunk, c.run, c.ts, c.seq, c.upper, c.parent FROM planned_chunk c
    JOIN latest l ON c.pipeline = $pipeline AND c.tbl = l.tbl AND (c.ts, c.seq) >= (l.ts, l.seq)),
again AS (
    SELECT * EXCLUDE (parent), lag(upper) OVER (PARTITION BY tbl, chunk ORDER BY ts, seq) AS planned_upper,
           row_number() OVER (PARTITION BY tbl, chunk ORDER BY ts, seq) AS nth
    FROM announced WHERE chunk IN (SELECT chunk FROM announced GROUP BY chunk HAVING count(*) > 1)),
stopped AS (
    SELECT s.chunk, s.upper, s.planned_upper, s.ts, s.seq, f.seq AS read FROM again s
    JOIN assigned a ON a.pipeline = $pipeline AND a.run = s.run AND a.tbl = s.tbl AND a.chunk = s.chunk AND s.nth > 1
    JOIN finished f ON f.pipeline = $pipeline AND f.run = s.run AND f.tbl = s.tbl AND f.chunk = s.chunk \
AND f.seq > s.seq
        AND f.upper IS NOT DISTINCT FROM s.upper
    WHERE a.seq < f.seq GROUP BY ALL HAVING max(a.seq) < s.seq),
rest AS (SELECT parent AS chunk, list_sort(list(DISTINCT chunk)) AS numbers FROM announced WHERE parent IS NOT NULL \
GROUP BY parent)
SELECT s.chunk, arg_max(s.upper, (s.ts, s.seq)), arg_min(s.planned_upper, (s.ts, s.seq)), \
coalesce(any_value(rest.numbers), [])
FROM stopped s LEFT JOIN rest ON rest.chunk = s.chunk GROUP BY s.chunk ORDER BY s.chunk
"""
)


def splits(cursor: Cursor, pipeline: str, table: str) -> list[ChunkSplit]:
    """The chunks of the table's newest plan that were split, by number."""
    parameters = {"pipeline": pipeline, "table": table}
    return fetch(
        cursor, lambda chunk, upper, planned, into: ChunkSplit(chunk, upper, planned, tuple(into)), _SPLITS, parameters
    )
