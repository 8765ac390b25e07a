"""Requests to buckets, from the journal."""

from dataclasses import dataclass
from datetime import date, datetime

from engine.history.fetch import Cursor, fetch, naive


@dataclass(frozen=True)
class RequestSums:
    """Requests to one place, of one table, on one day."""

    day: date
    """UTC."""
    place: str
    """As `journal.store_events.PlaceRequests` has it."""
    table: str
    puts: int
    lists: int
    gets: int
    deletes: int
    sent_bytes: int
    received_bytes: int


_SUMS = """
WITH one AS (
    SELECT ts::DATE AS day, unnest(from_json(body->'$.requests', '[{"place": "VARCHAR", "table": "VARCHAR", \
"puts": "BIGINT", "lists": "BIGINT", "gets": "BIGINT", "deletes": "BIGINT", "sent_bytes": "BIGINT", \
"received_bytes": "BIGINT"}]')) AS r
    FROM event WHERE pipeline = $pipeline AND event = 'store.requests' AND ts >= $since)
SELECT day, r.place, r."table", sum(r.puts)::BIGINT, sum(r.lists)::BIGINT, sum(r.gets)::BIGINT,
       sum(r.deletes)::BIGINT, sum(r.sent_bytes)::BIGINT, sum(r.received_bytes)::BIGINT
FROM one GROUP BY ALL ORDER BY ALL
"""
_EPOCHS = "SELECT ts::DATE AS day, count(*)::BIGINT FROM epoch WHERE pipeline = $pipeline AND ts >= $since GROUP BY ALL"


@dataclass(frozen=True)
class DayEpochs:
    """The epochs of a day."""

    day: date
    epochs: int


def requests(cursor: Cursor, pipeline: str, since: datetime) -> list[RequestSums]:
    """Requests since a time, by day, place and table."""
    return fetch(cursor, RequestSums, _SUMS, {"pipeline": pipeline, "since": naive(since)})


def epochs(cursor: Cursor, pipeline: str, since: datetime) -> list[DayEpochs]:
    """Epochs since a time, by day."""
    return fetch(cursor, DayEpochs, _EPOCHS, {"pipeline": pipeline, "since": naive(since)})
