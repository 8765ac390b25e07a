"""Reads that wait for a lock on the source, as the runner reports them.

What waits and who holds it, what it means, and what to do.
"""

from engine.journal.alert_kinds import remedy
from engine.journal.sentences import blocked
from engine.pipeline.runner_record import RunnerRecord

KIND = "read_blocked"
_MEANING = "Nothing is lost. These reads continue when the lock is released; until then each of them occupies a reader."


def panels(record: RunnerRecord | None, table: str | None = None) -> list[tuple[str, str, str]]:
    """The three parts for each blocked table of a live runner. record: None without one. table: only this one."""
    return [
        (f"{blocked(read, read.table)}.", _MEANING, read.hint or remedy(KIND))
        for read in (record.blocked if record is not None else ())
        if table is None or read.table == table
    ]
