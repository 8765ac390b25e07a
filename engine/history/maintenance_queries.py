"""The destination, from the journal: maintenance, what merges wrote, and the space on its disk."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch, fetch_one, naive


@dataclass(frozen=True)
class WrittenBytes:
    """What was written for one table since a time."""

    table: str
    changed_bytes: int
    """The size of the changes that were merged."""
    merged_bytes: int
    """What merges wrote."""
    maintained_bytes: int
    """What maintenance wrote."""
    merges: int
    merged: datetime | None
    """The last merge."""
    maintained: datetime | None
    """The last step of maintenance."""

    @property
    def amplification(self) -> float | None:
        """Bytes written per byte of changes; None without changes."""
        return (self.merged_bytes + self.maintained_bytes) / self.changed_bytes if self.changed_bytes else None


_WORK = """
SELECT tbl,
       coalesce(sum(TRY_CAST(body->>'$.changed_bytes' AS BIGINT)) FILTER (event = 'sink.applied'), 0)::BIGINT,
       coalesce(sum(TRY_CAST(body->>'$.written_bytes' AS BIGINT)) FILTER (event = 'sink.applied'), 0)::BIGINT,
       coalesce(sum(TRY_CAST(body->>'$.added_bytes' AS BIGINT)) FILTER (event = 'sink.maintained'), 0)::BIGINT,
       count(*) FILTER (event = 'sink.applied' AND body->>'$.kind' = 'merge'),
       max(ts) FILTER (event = 'sink.applied' AND body->>'$.kind' <> 'append'),
       max(ts) FILTER (event = 'sink.maintained')
FROM event
WHERE pipeline = $pipeline AND event IN ('sink.applied', 'sink.maintained') AND ts >= $since AND tbl IS NOT NULL
GROUP BY tbl ORDER BY tbl
"""


def work(cursor: Cursor, pipeline: str, since: datetime) -> list[WrittenBytes]:
    """What was written for each table since a time, in UTC."""
    return fetch(cursor, WrittenBytes, _WORK, {"pipeline": pipeline, "since": naive(since)})


@dataclass(frozen=True)
class Space:
    """The disk of the destination: fields as in `destination_events.SpaceMeasured`."""

    ts: datetime
    free_bytes: int
    total_bytes: int
    growth_per_day: float | None
    full_in_s: float | None


_SPACE = """
SELECT ts, (body->>'$.free_bytes')::BIGINT, (body->>'$.total_bytes')::BIGINT,
       TRY_CAST(body->>'$.growth_per_day' AS DOUBLE), TRY_CAST(body->>'$.full_in_s' AS DOUBLE)
FROM event WHERE pipeline = $pipeline AND event = 'disk.space' ORDER BY ts DESC, seq DESC LIMIT 1
"""


def latest_space(cursor: Cursor, pipeline: str) -> Space | None:
    """The newest measurement, or None."""
    return fetch_one(cursor, Space, _SPACE, {"pipeline": pipeline})
