"""One table: how fresh its destination is, its changes by kind, its chunks by state, and why it stopped."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.chunk_queries import PROGRESS
from engine.history.fetch import Cursor, fetch, fetch_one, naive


@dataclass(frozen=True)
class Flow:
    """How far the table's changes have come. A time is that of the journal line."""

    committed: datetime | None
    """When the last epoch with changes of the source was committed; redumped rows are none."""
    published: datetime | None
    """The last commit of rows or changes in the destination."""
    merged: datetime | None
    """The last commit that merged changes into the mirror, or replaced it."""
    unpublished_since: datetime | None
    """When the oldest change of the newest run that is not published was committed; None if all are."""
    unmerged_since: datetime | None
    """When the oldest change since the copy that no merge has reached was committed; None if all are merged.

    A runner that is killed between a merge and its line in the journal leaves one that is too old.
    """


@dataclass(frozen=True)
class Changes:
    """The changes that were committed in a time.

    The kinds are None if the journal does not have them for all changes.
    """

    changes: int
    """Entries of the change log: an update has two, and redumped rows have their own."""
    inserts: int | None
    updates: int | None
    deletes: int | None
    redumped: int = 0
    """Entries of redumped rows, which none of the kinds counts."""


@dataclass(frozen=True)
class StateCount:
    """How many chunks of a table are in a state."""

    state: str
    """One of `chunk_queries.STATES`."""
    chunks: int
    first: int
    """The lowest number of these chunks."""


@dataclass(frozen=True)
class NewestTableState:
    """The table's newest state, since when it has been in it, and why it stopped."""

    state: str
    since: datetime
    reason: str | None
    hint: str | None
    """`reason` and `hint` are None unless it stopped."""


# A runner that is killed between a commit in the destination and its line in the journal leaves a change that seems
# unpublished. The next run publishes everything of earlier runs before anything else, so only changes of the newest run
# count.
_FLOW = """
WITH c AS (
    SELECT ts, run, epoch, redumped < changes AS own FROM changed \
WHERE pipeline = $pipeline AND tbl = $table AND changes > 0),
newest AS (SELECT arg_max(run, ts) AS run FROM begun WHERE pipeline = $pipeline),
a AS (
    SELECT max(ts) FILTER (kind = 'append') AS published, max(ts) FILTER (kind <> 'append') AS merged,
           greatest(arg_max(through_epoch, (ts, seq)) FILTER (kind = 'append'),
                    arg_max(through_epoch, (ts, seq)) FILTER (kind <> 'append')) AS published_through,
           arg_max(through_epoch, (ts, seq)) FILTER (kind <> 'append') AS merged_through
    FROM applied WHERE pipeline = $pipeline AND tbl = $table)
SELECT (SELECT max(ts) FROM c WHERE own), published, merged,
       (SELECT min(ts) FROM c WHERE epoch > coalesce(published_through, -1) AND run = (SELECT run FROM newest)),
       (SELECT min(ts) FROM c WHERE epoch > coalesce(merged_through, -1) AND ts > $copied)
FROM a
"""

_CHANGES = """
WITH c AS (SELECT * FROM changed WHERE pipeline = $pipeline AND tbl = $table AND ($since IS NULL OR ts >= $since) \
AND changes > 0)
SELECT coalesce(sum(changes), 0)::BIGINT,
       CASE WHEN count(*) = count(inserts) THEN coalesce(sum(inserts), 0)::BIGINT END,
       CASE WHEN count(*) = count(updates_after) THEN coalesce(sum(updates_after), 0)::BIGINT END,
       CASE WHEN count(*) = count(deletes) THEN coalesce(sum(deletes), 0)::BIGINT END,
       coalesce(sum(redumped), 0)::BIGINT
FROM c
"""

_COUNTS = PROGRESS + "SELECT state, count(*), min(chunk) FROM progress GROUP BY state ORDER BY state"

# Each run journals the state again, so the state began with its first line after those of another state.
_STATE = """
WITH s AS (SELECT ts, seq, state, reason, hint FROM stated WHERE pipeline = $pipeline AND tbl = $table),
newest AS (SELECT arg_max(state, (ts, seq)) AS state FROM s),
here AS (
    SELECT * FROM s WHERE (ts, seq) > coalesce(
        (SELECT max((ts, seq)) FROM s WHERE state <> (SELECT state FROM newest)), (TIMESTAMP 'epoch', 0)))
SELECT state, (SELECT min(ts) FROM here),
       CASE WHEN state = 'stopped' THEN (SELECT arg_max(reason, (ts, seq)) FROM here) END,
       CASE WHEN state = 'stopped' THEN (SELECT arg_max(hint, (ts, seq)) FROM here) END
FROM newest WHERE state IS NOT NULL
"""


def flow(cursor: Cursor, pipeline: str, table: str, copied: datetime | None) -> Flow:
    """How far the table's changes have come. copied: when its copy was completed; None: its mirror is not complete."""
    parameters = {"pipeline": pipeline, "table": table, "copied": naive(copied) if copied else None}
    return fetch_one(cursor, Flow, _FLOW, parameters) or Flow(None, None, None, None, None)


def changes(cursor: Cursor, pipeline: str, table: str, since: datetime | None = None) -> Changes:
    """The changes of a table since a time, or of the whole journal."""
    parameters = {"pipeline": pipeline, "table": table, "since": naive(since) if since else None}
    return fetch_one(cursor, Changes, _CHANGES, parameters) or Changes(0, 0, 0, 0)


def chunk_counts(cursor: Cursor, pipeline: str, table: str) -> list[StateCount]:
    """The number of chunks in each state that occurs."""
    return fetch(cursor, StateCount, _COUNTS, {"pipeline": pipeline, "table": table})


def state(cursor: Cursor, pipeline: str, table: str) -> NewestTableState | None:
    """The table's newest state; None before the journal has one."""
    return fetch_one(cursor, NewestTableState, _STATE, {"pipeline": pipeline, "table": table})
