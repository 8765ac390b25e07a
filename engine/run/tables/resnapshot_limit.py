"""Slows down a table that resnapshots itself again and again, and stops it in the end. Pure.

A statement that Tidemark cannot apply costs a copy of the whole table each time. The first few resnapshots within an
hour begin at once, the others minutes after the one before: a server that logs statements would else have every table
stopped within seconds, before anybody has read the alert. The ledger knows when the automatic resnapshots of the last
hour were decided, so that a restart does not count from zero. An operator's resnapshot does.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from engine.base import clock
from engine.base.errors import TableStoppedError
from engine.base.wording import shell_word, utc_time
from engine.ledger.state import TableState, latest_resnapshots
from engine.run.tables.schema_change import Altered, SchemaVerdict

AT_ONCE = 5
"""So many automatic resnapshots of a table within an hour begin at once."""
APART = timedelta(minutes=2)
"""A later one begins so long after it was decided. With 20 within an hour, the table stops after half an hour."""
_FIND = (
    "Find out what changes the table like that: the console's page of the table lists the statements, "
    "which may be on other tables."
)


def limited(
    verdict: SchemaVerdict, altered: Altered, table_state: TableState, limit: int, now: str, remedy: str = ""
) -> SchemaVerdict:
    """The verdict of an automatic resnapshot, or a stop if the table has had `limit` of them within an hour.

    The reason of one that does not begin at once says when it does. now: UTC text. remedy: what ends the cause, if it
    is known.
    """
    if verdict.outcome != "resnapshotted":
        return verdict
    latest = latest_resnapshots(table_state, now)
    if len(latest) < limit:
        count, begins = len(latest) + 1, _begins((*latest, now))
        later = f". It is number {count} within an hour, and begins at {utc_time(begins)}" if begins > now else ""
        return replace(verdict, reason=f"{verdict.reason}{later}", automatic=now, within_hour=count)
    name = altered.table.full_name
    error = TableStoppedError(
        f"{name} was resnapshotted {len(latest)} times within an hour, and would have to be again: {verdict.reason}.",
        detail="Each one reads the whole table. What is published is right up to this change; "
        "nothing after it was published.",
        hint=f"{remedy or _FIND} Then resnapshot it: tidemark redump SPEC --table {shell_word(name)}. For "
        f"several, repeat --table. source.max_resnapshots_per_hour is {limit}; with more, the next start does it.",
    )
    return SchemaVerdict("stopped", error.message, altered.table, altered.plan, error)


def rest_s(table_state: TableState, now: str) -> float:
    """Seconds until a table's copy may begin. now: UTC text."""
    latest = latest_resnapshots(table_state, now)
    if not latest:
        return 0.0
    remaining = clock.parse_utc(_begins(latest)) - clock.parse_utc(now)
    return min(max(remaining, timedelta()), APART).total_seconds()  # the clock may have been set back


def _begins(latest: Sequence[str]) -> str:
    """When the last of these resnapshots begins, as UTC text. latest: when those within an hour were decided."""
    if len(latest) <= AT_ONCE:
        return latest[-1]
    return clock.utc_text(clock.parse_utc(latest[-1]) + APART)
