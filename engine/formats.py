"""The versions of what is kept in files: what a newer Tidemark wrote is refused by name, what an older one wrote is read.

A record says its version in `format`. One without it was written before versions were: it counts as 0, which every format of
version 1 still is. Raise a number when an older Tidemark would read a record of it wrongly; a field that it may pass over needs no
new number.

    epoch, state                ledger/              no run and no status: what is committed is not known
    controls, parked, alerts    controls.json …      no run: what they say would be forgotten
    command                     inbox/               that command is refused
    runner                      runner.json          no status and no command; the lock decides who runs
    journal                     run.started          that journal is not shown, and history says so; no chunk is known by it
    draft, connections, queries the console's        not shown, not overwritten
    history                     history.duckdb       left as it is; the index is built in memory
    bundle                      versions.json        nobody reads it back
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import NewerFormatError

VERSIONS: Mapping[str, int] = {
    "epoch": 2,
    "state": 2,
    "controls": 1,
    "parked": 1,
    "alerts": 2,
    "command": 1,
    "runner": 1,
    "journal": 1,
    "draft": 1,
    "connections": 1,
    "queries": 1,
    "history": 1,
    "bundle": 1,
}
"""The version that this Tidemark writes, and the newest that it reads, by format."""
FIELD = "format"


def stamped(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the version that this Tidemark writes."""
    return {FIELD: VERSIONS[name], **record}


def version_of(record: Any) -> int:
    """The version that a record says; 0 where it says none that is a number."""
    found = record.get(FIELD) if isinstance(record, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def check(name: str, record: Any, path: Path) -> None:
    """Raises NewerFormatError when a record of this format was written by a newer Tidemark. path: where it was found."""
    version, known = version_of(record), VERSIONS[name]
    if version > known:
        raise NewerFormatError(
            f"{path} has version {version} of the format {name!r}; this Tidemark knows up to {known}.",
            detail="A newer Tidemark wrote it. Read by the rules of this one it could mean something else, so it was not read.",
            hint="Use the newer Tidemark for this pipeline. To go back for good, restore a backup from before it.",
        )


def without(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its version."""
    return {name: value for name, value in record.items() if name != FIELD}
