"""Alerts that were cleared, from the journals of all pipelines."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch


@dataclass(frozen=True)
class Cleared:
    """An alert that is over."""

    pipeline: str
    cleared: datetime
    table: str | None
    kind: str | None
    since: str | None
    """When its cause began: UTC text."""
    value: float | None
    """When it was raised."""
    threshold: float | None
    message: str | None
    """When it was raised."""


# The line of the end holds the value at the end; the value that fired, and identifies the alert, is in the last line
# before it.
_CLEARED = """
WITH alert AS (
    SELECT pipeline, run, seq, ts, event, tbl, body->>'$.kind' AS kind, body->>'$.since' AS since,
           TRY_CAST(body->>'$.value' AS DOUBLE) AS value, TRY_CAST(body->>'$.threshold' AS DOUBLE) AS threshold,
           body->>'$.message' AS message
    FROM event WHERE event IN ('alert.raised', 'alert.cleared') AND ($pipeline IS NULL OR pipeline = $pipeline)),
ended AS (SELECT * FROM alert WHERE event = 'alert.cleared' ORDER BY ts DESC, seq DESC LIMIT $limit)
SELECT e.pipeline, e.ts, e.tbl, e.kind, e.since, arg_max(r.value, (r.ts, r.seq)), any_value(e.threshold),
       coalesce(arg_max(r.message, (r.ts, r.seq)), any_value(e.message))
FROM ended e LEFT JOIN alert r ON r.event = 'alert.raised' AND r.pipeline = e.pipeline AND r.kind = e.kind
     AND r.since = e.since AND r.tbl IS NOT DISTINCT FROM e.tbl AND (r.ts, r.seq) <= (e.ts, e.seq)
GROUP BY e.pipeline, e.run, e.seq, e.ts, e.tbl, e.kind, e.since
ORDER BY e.ts DESC, e.seq DESC
"""


def cleared(cursor: Cursor, pipeline: str | None = None, limit: int = 500) -> list[Cleared]:
    """Cleared alerts, the newest first; of all pipelines if none is named."""
    return fetch(cursor, Cleared, _CLEARED, {"pipeline": pipeline, "limit": limit})
