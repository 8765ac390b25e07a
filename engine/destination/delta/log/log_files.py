"""The names of the files in a Delta table's log.

Source: Delta transaction log protocol, "Delta Log Entries" and "Checkpoints" (github.com/delta-io/delta, PROTOCOL.md).
"""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from engine.store.folder import FileEntry, Folder

CHECKPOINT_POINTER = "_last_checkpoint"
"""The file that names the newest checkpoint."""
_COMMIT = re.compile(r"^(\d{20})\.json$")
_PART = re.compile(r"^\d{20}\.checkpoint\.\d{10}\.(\d{10})\.parquet$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.(.+\.)?parquet$")


def log_of(table: Folder) -> Folder:
    """The folder of a table's log."""
    return table / "_delta_log"


def commit_name(version: int) -> str:
    """The name of the commit that made a version."""
    return f"{version:020d}.json"


def commit_version(name: str) -> int | None:
    """The version in the name of a commit; None for any other file."""
    match = _COMMIT.match(name)
    return int(match[1]) if match else None


def newest_version(table: Folder) -> int:
    """The newest version of a table by the names of its commits, which are not read; -1 without one."""
    with suppress(OSError):
        versions = (commit_version(file.name) for file in log_of(table).entries())
        return max((version for version in versions if version is not None), default=-1)
    return -1


def checkpoint_version(name: str) -> int | None:
    """The version in the name of a checkpoint's file; None for any other file. A checkpoint may have several files."""
    match = _CHECKPOINT.match(name)
    return int(match[1]) if match else None


def complete_checkpoints(entries: Iterable[FileEntry]) -> set[int]:
    """The versions of the complete checkpoints: all parts are there. entries: the files of a log.

    Another tool may be writing a checkpoint of several files, or was killed while it did. Readers pass over those.
    """
    parts: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        if (version := checkpoint_version(entry.name)) is not None and entry.size > 0:
            part = _PART.match(entry.name)
            parts[version, int(part[1]) if part else 1] += 1
    return {version for (version, whole), count in parts.items() if count >= whole}


def checkpoint_files(log: Folder, version: int) -> list[FileEntry]:
    """The files of a version's checkpoint."""
    entries = log.entries(f"{version:020d}.checkpoint")
    return [entry for entry in entries if checkpoint_version(entry.name) == version]
