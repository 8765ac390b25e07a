"""Versions of the file formats. A newer Tidemark's file is refused with an error that names it; an older one's is read.

A record has its version in `format`. Without one, it predates versions and counts as 0; formats at version 1 have not
changed since. Raise a number if an older Tidemark would misread a record. A new field that it may skip needs no new
number.

If a file is newer:

    epoch, state                ledger/              no run and no status: the committed state is unknown
    controls, parked, alerts    controls.json …      no run: their content would be lost
    command                     inbox/               the command is refused
    acknowledgement             acknowledged/        the alert counts as not acknowledged
    silence                     silences/            it silences nothing: alerts are sent
    verification                verify/              shown as not verified yet
    lease                       lease.json           no run and no status of a pipeline in a bucket
    watch                       watchdog.json        ignored: the watchdog leaves the pipeline alone
    runner                      runner.json          no status and no command; the lock decides who runs
    journal                     run.started          the journal is not shown, and history says so; its chunks are
                                unknown
    draft, connections, queries the console's        not shown, not overwritten
    history                     history.duckdb       left alone; the index is built in memory
    bundle                      versions.json        nobody reads it back
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import NewerFormatError

VERSIONS: Mapping[str, int] = {
    "epoch": 4,
    "state": 4,
    "controls": 1,
    "parked": 1,
    "alerts": 4,
    "command": 1,
    "acknowledgement": 1,
    "silence": 1,
    "runner": 1,
    "journal": 1,
    "draft": 1,
    "connections": 1,
    "queries": 1,
    "history": 1,
    "bundle": 1,
    "verification": 1,
    "watch": 1,
    "lease": 1,
}
"""By format, the version that this Tidemark writes, which is also the newest that it reads."""
FIELD = "format"


def stamped(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its format's current version."""
    return {FIELD: VERSIONS[name], **record}


def version_of(record: Any) -> int:
    """A record's version; 0 if it has none that is a number."""
    version = record.get(FIELD) if isinstance(record, Mapping) else None
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def check(name: str, record: Any, path: Path | str) -> None:
    """Raises NewerFormatError if a newer Tidemark wrote the record. path: its file."""
    version, newest = version_of(record), VERSIONS[name]
    if version > newest:
        raise NewerFormatError(
            f"{path} has version {version} of the format {name!r}; this Tidemark knows up to {newest}.",
            detail="A newer Tidemark wrote it. This version could misread it, so it was not read.",
            hint="Use the newer Tidemark for this pipeline. To downgrade permanently, "
            "restore a backup from before the upgrade.",
        )


def without(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its version."""
    return {name: value for name, value in record.items() if name != FIELD}
