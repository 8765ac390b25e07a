"""Tables: plan, state and progress.

A table may be split while it is copied. Then `chunks` are those known now, `estimated_chunks` is the estimate from the
server's statistics, and `complete` says that no more chunks follow, except for chunks that are split again.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from engine.history.chunk_queries import planned
from engine.history.fetch import Cursor, aware, fetch, part
from engine.history.table_counts import Count, counts


@dataclass(frozen=True)
class NewestPlan:
    """A table's newest plan."""

    table: str
    planned: datetime
    approx_rows: int | None
    chunk_key: str
    min: str | None
    max: str | None
    distribution_factor: float | None
    strategy: str | None
    reason: str | None
    chunks: int
    chunk_rows: int | None
    estimated_chunks: int | None
    complete: bool
    last_chunk: int | None
    """The highest chunk number; chunks with lower numbers may not exist yet."""

    @property
    def expected_chunks(self) -> int:
        """The expected number of chunks."""
        return expected(self.chunks, self.estimated_chunks, complete=self.complete)


class TableProgress(NamedTuple):
    """How far a table is, by its newest plan. A tuple: 5 000 of them are made after each commit.

    A table without a plan, or a removed one, has no chunks and is `complete`: none will follow.
    """

    table: str
    state: str | None
    """copying, streaming, stopped or removed."""
    reason: str | None
    """Why it stopped."""
    hint: str | None
    """What to do about it."""
    approx_rows: int | None
    chunks: int
    estimated_chunks: int | None
    complete: bool
    waiting: int
    reading: int
    failed: int
    finished: int
    published: int
    rows: int
    """Rows of finished and published chunks."""
    changes: int
    first_started: datetime | None
    last_ended: datetime | None
    last_change_s: float | None = None
    """When the newest epoch with changes of it was committed, in seconds since 1970."""

    @property
    def done(self) -> int:
        """The number of chunks that are read."""
        return self.finished + self.published

    @property
    def expected_chunks(self) -> int:
        """The expected number of chunks."""
        return expected(self.chunks, self.estimated_chunks, complete=self.complete)

    @property
    def planned(self) -> bool:
        """Whether there is anything to copy: chunks, or a plan whose chunks follow."""
        return self.chunks > 0 or not self.complete

    @property
    def copied(self) -> bool:
        """Whether no chunk remains to be read or split off."""
        return self.complete and self.done == self.chunks and not self.being_planned

    @property
    def being_planned(self) -> bool:
        """Whether its copy has begun, but its newest plan is missing: a new table has none, a resnapshot an older one.

        The runner journals `streaming` with the commit of the last chunk, so such a plan is not the one of this copy.
        """
        return self.state == "copying" and self.complete and self.published == self.chunks

    @property
    def being_copied(self) -> bool:
        """Whether chunks remain, and will be read: those of a stopped table will not."""
        return not self.copied and self.state != "stopped"


def expected(chunks: int, estimated: int | None, *, complete: bool) -> int:
    """The known chunks if the table is completely split; otherwise the estimate, but never fewer than are known."""
    return chunks if complete else max(chunks, estimated or 0)


_PLANS = (
    planned()
    + """
SELECT tbl, ts, approx_rows, chunk_key, min, max, factor, strategy, reason, coalesce(n, 0), chunk_rows, \
estimated_chunks,
       complete, last_chunk
FROM extent LEFT JOIN (SELECT tbl, count(*) AS n, max(chunk) AS last_chunk FROM plan GROUP BY tbl) USING (tbl) \
ORDER BY tbl
"""
)

_TABLE_STATES = """
SELECT tbl, arg_max(state, (ts, seq)), arg_max(reason, (ts, seq)) FILTER (state = 'stopped'),
       arg_max(hint, (ts, seq)) FILTER (state = 'stopped')
FROM stated
WHERE pipeline = $pipeline AND tbl IS NOT NULL GROUP BY tbl
"""

_PLANNED = "SELECT DISTINCT tbl FROM planned WHERE pipeline = $pipeline"

_SUMS = """
SELECT tbl, sum(changes - redumped)::BIGINT, epoch(max(ts) FILTER (changes > redumped)) FROM changed
WHERE pipeline = $pipeline AND tbl IS NOT NULL GROUP BY tbl
"""

_COPIED = """
SELECT min(ts) FROM stated WHERE pipeline = $pipeline AND tbl = $table AND state = 'streaming' \
AND (ts, seq) > coalesce((
    SELECT max((ts, seq)) FROM stated WHERE pipeline = $pipeline AND tbl = $table AND state <> 'streaming'), \
(TIMESTAMP 'epoch', 0))
"""


def plans(cursor: Cursor, pipeline: str, table: str | None = None) -> list[NewestPlan]:
    """The newest plan of each table, or of one."""
    return fetch(cursor, NewestPlan, _PLANS, {"pipeline": pipeline, "table": table})


def progress(cursor: Cursor, pipeline: str) -> list[TableProgress]:
    """The progress of each table, by name."""
    table_progress = part(cursor, _without_changes, pipeline)
    tables = dict(table_progress)
    for name, changes, at_s in cursor.execute(_SUMS, {"pipeline": pipeline}).fetchall():
        if changes or name not in table_progress:
            one = table_progress.get(name) or _unplanned(name)
            tables[name] = one._replace(changes=changes or 0, last_change_s=at_s)
    return sorted(tables.values(), key=lambda one: one.table)


def _without_changes(cursor: Cursor, pipeline: str) -> dict[str, TableProgress]:
    """The progress of each table without its changes. Only while tables are copied does it depend on epochs."""
    states = {table: rest for table, *rest in cursor.execute(_TABLE_STATES, {"pipeline": pipeline}).fetchall()}
    chunks = counts(cursor, pipeline)
    plan_by_table = {plan.table: plan for plan in part(cursor, plans, pipeline)}
    tables = {}
    for table in {**plan_by_table, **states}:
        state, reason, hint = states.get(table, (None, None, None))
        plan, count = plan_by_table.get(table), chunks.get(table, Count()) if state != "removed" else Count()
        tables[table] = TableProgress(
            table,
            state,
            reason if state == "stopped" else None,
            hint if state == "stopped" else None,
            plan.approx_rows if plan else None,
            count.chunks,
            plan.estimated_chunks if plan else None,
            state == "removed" or plan is None or plan.complete,
            count.waiting,
            count.reading,
            count.failed,
            count.finished,
            count.published,
            count.rows,
            0,
            count.first_started,
            count.last_ended,
        )
    return tables


def _unplanned(table: str) -> TableProgress:
    """A table that has changes and no plan."""
    return TableProgress(table, None, None, None, None, 0, None, True, 0, 0, 0, 0, 0, 0, 0, None, None)


def captured(cursor: Cursor, pipeline: str, also: tuple[str, ...] = ()) -> list[str]:
    """The names of the planned tables and of those with a state, without removed ones.

    also: others; the journals may have forgotten a table that did not change its state for longer than they are kept.
    """
    states = cursor.execute(_TABLE_STATES, {"pipeline": pipeline}).fetchall()
    names = {table for (table,) in cursor.execute(_PLANNED, {"pipeline": pipeline}).fetchall()}
    removed = {table for table, state, *_ in states if state == "removed"}
    return sorted(names.union((table for table, *_ in states), also) - removed)


def stopped(cursor: Cursor, pipeline: str) -> list[str]:
    """The names of the stopped tables."""
    rows = cursor.execute(_TABLE_STATES, {"pipeline": pipeline}).fetchall()
    return sorted(table for table, state, *_ in rows if state == "stopped")


def copied_at(cursor: Cursor, pipeline: str, table: str) -> datetime | None:
    """When the table's last copy was completed; None while it is being copied, or if it is not captured."""
    row = cursor.execute(_COPIED, {"pipeline": pipeline, "table": table}).fetchone()
    at: datetime | None = aware(row[0]) if row else None
    return at
