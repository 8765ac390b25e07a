"""What the chunk map can be coloured by: SQL for one number per chunk, for all chunks of a table in one query.

Each `Measure` extends `chunk_queries.PROGRESS`, whose `progress` is `p` here. Its value is NULL where the journals have
none.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One number per chunk."""

    value: str
    """The expression."""
    joins: str = ""
    tables: str = ""
    """Further common table expressions, each after a comma."""


READ = """
LEFT JOIN finished f ON f.pipeline = $pipeline AND f.run = p.read_run AND f.seq = p.read_seq AND f.tbl = p.tbl \
AND f.chunk = p.chunk
"""
"""Join the row of the chunk's newest read as `f`."""

FAILURES = """
, failures AS (
    SELECT tbl, chunk, count(*) AS n FROM failed JOIN latest l USING (tbl)
    WHERE failed.pipeline = $pipeline AND (failed.ts, failed.seq) >= (l.ts, l.seq) GROUP BY ALL)
"""
"""How often each chunk failed since the table was planned."""

ATTEMPTS = Measure(
    "nullif(coalesce(failures.n, 0) + coalesce(p.attempt + 1, 0) + (p.state = 'reading')::INT, 0)",
    "LEFT JOIN failures ON failures.tbl = p.tbl AND failures.chunk = p.chunk\n",
    FAILURES,
)
"""Failures since the plan, and the attempts of Spark at the newest read. Spark counts its attempts from 0."""

_PARTS = [f"f.{part}_s" for part in ("low", "read", "high", "backfill", "write")]

# An epoch publishes a chunk if it comes after it in the run and reaches its high watermark. A run's epochs only move
# forward, so the first such epoch is the later of the first after it and the first that reaches it.
#
# A redump has read a chunk again if one of its parts begins where the chunk begins and one ends where the chunk ends.
# Its parts are those of chunks, of one range or of the whole table, so all between was read too. Keys have no bounds.
_NEWEST = """
, following AS (SELECT run, seq, ts FROM epoch WHERE pipeline = $pipeline),
reaching AS (SELECT run, to_at, min(ts) AS ts FROM epoch WHERE pipeline = $pipeline AND to_at IS NOT NULL GROUP BY ALL),
done_redumps AS (
    SELECT body->>'$.id' AS id FROM event WHERE pipeline = $pipeline AND event = 'command.done' \
AND body->>'$.verb' = 'redump'
    AND body->>'$.result.missing_keys' IS NULL),
part AS (
    SELECT e.tbl, e.ts, e.body->>'$.id' AS id, e.body->>'$.lower' AS lower, e.body->>'$.upper' AS upper
    FROM event e JOIN latest l ON e.pipeline = $pipeline AND e.event = 'redump.chunk' AND e.tbl = l.tbl AND e.ts >= l.ts
    WHERE e.body->>'$.id' IN (SELECT id FROM done_redumps)),
redumped AS (
    SELECT c.tbl, c.chunk, max(greatest(a.ts, b.ts)) AS ts FROM plan c
    JOIN part a ON a.tbl = c.tbl AND a.lower IS NOT DISTINCT FROM c.lower
    JOIN part b ON b.tbl = c.tbl AND b.id = a.id AND b.upper IS NOT DISTINCT FROM c.upper GROUP BY ALL)
"""

MEASURES = {
    "duration": Measure(
        f"CASE WHEN coalesce({', '.join(_PARTS)}) IS NOT NULL "
        f"THEN {' + '.join(f'coalesce({part}, 0)' for part in _PARTS)} END",
        READ,
    ),
    "rows": Measure("p.rows"),
    "gap": Measure("f.gap_bytes", READ),
    "changes": Measure("f.backfill_changes", READ),
    "attempts": ATTEMPTS,
    "newest": Measure(
        """epoch(CASE WHEN p.state = 'published' THEN greatest(redumped.ts,
            CASE WHEN following.ts IS NOT NULL AND reaching.ts IS NOT NULL \
THEN greatest(following.ts, reaching.ts) END) END)""",
        READ
        + """ASOF LEFT JOIN following ON following.run = f.run AND following.seq > f.seq
        ASOF LEFT JOIN reaching ON reaching.run = f.run AND reaching.to_at >= f.high_at
        LEFT JOIN redumped ON redumped.tbl = p.tbl AND redumped.chunk = p.chunk\n""",
        _NEWEST,
    ),
}
"""By name. `duration`: seconds of the newest read. `gap`: bytes between its watermarks; NULL if they lie in two files.
`changes`: in its window. `newest`: when the chunk was last published or redumped, in seconds since 1970."""
