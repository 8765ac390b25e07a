"""Stops a table that resnapshots itself again and again. Pure.

A statement that Tidemark cannot apply costs a copy of the whole table each time. The ledger knows when the automatic
resnapshots of the last hour began, so that a restart does not count from zero. An operator's resnapshot does.
"""

from dataclasses import replace

from engine.base.errors import TableStoppedError
from engine.ledger.state import TableState, latest_resnapshots
from engine.run.tables.schema_change import Altered, SchemaVerdict

_FIND = (
    "Find out what changes the table like that: the console's page of the table lists the statements, "
    "which may be on other tables."
)


def limited(
    verdict: SchemaVerdict, altered: Altered, table_state: TableState, limit: int, now: str, remedy: str = ""
) -> SchemaVerdict:
    """The verdict of an automatic resnapshot, or a stop if the table has had `limit` of them within an hour.

    now: UTC text. remedy: what ends the cause, if it is known.
    """
    if verdict.outcome != "resnapshotted":
        return verdict
    latest = latest_resnapshots(table_state, now)
    if len(latest) < limit:
        return replace(verdict, automatic=now, within_hour=len(latest) + 1)
    name = altered.table.full_name
    error = TableStoppedError(
        f"{name} was resnapshotted {len(latest)} times within an hour, and would have to be again: {verdict.reason}.",
        detail="Each one reads the whole table. What is published is right up to this change; "
        "nothing after it was published.",
        hint=f"{remedy or _FIND} Then resnapshot it: tidemark redump SPEC --table {name}. For "
        f"several, repeat --table. source.max_resnapshots_per_hour is {limit}; with more, the next start does it.",
    )
    return SchemaVerdict("stopped", error.message, altered.table, altered.plan, error)
