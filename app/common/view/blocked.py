"""Reads that wait for a lock on the source, as the runner reports them.

What waits and who holds it, what it means, and what to do.
"""

from collections.abc import Mapping
from typing import Any

from engine.journal.alert_texts import remedy
from engine.journal.sentences import blocked

KIND = "read_blocked"
_MEANING = "Nothing is lost. These reads continue when the lock is released; until then each of them occupies a reader."


def panels(record: Mapping[str, Any], table: str | None = None) -> list[tuple[str, str, str]]:
    """The three parts for each blocked table of a live runner. table: only this one."""
    found = record.get("blocked") if record.get("alive") else None
    reads = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return [
        (f"{blocked(one, one.get('table'))}.", _MEANING, str(one.get("hint") or remedy(KIND)))
        for one in reads
        if table is None or one.get("table") == table
    ]
