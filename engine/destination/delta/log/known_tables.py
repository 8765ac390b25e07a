"""What a run that ended in order knew of its Delta tables.

So the next run opens only those that have changed since.

To open a table, its log since the last checkpoint is read: some milliseconds, which are seconds for hundreds of tables.
A table is unchanged if neither its folders nor the newest commit have another inode or change time (`ctime`, which no
tool can set back): then no file was added, removed or renamed there. In a bucket, if a listing has the same names and
tags. The knowledge is used only if the destination's
newest term is that of the run, and it ended in order (`destination.fence`): after a crash, and after any other runner,
all tables are opened and checked.

It is a cache in the pipeline's folder, and can be deleted at any time.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.base.durable import make_folders, write_atomically
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.fence import Term
from engine.store.folder import Folder
from engine.store.folder_state import Stamp, stamp_of
from engine.store.local_folder import LocalFolder

_FORMAT = 2
_SETTLED_S = 2.0
"""A folder whose last change is younger than this is not remembered: another change may have the same time."""


def stamps_of(folder: Folder) -> list[Stamp]:
    """The states of a Delta table's folders: its own, of its deletion vectors, of its log."""
    if isinstance(folder, LocalFolder):
        return [stamp_of(one) for one in (folder, folder / FOLDER, log_of(folder))]
    return [stamp_of(folder)]


def commit_stamp(folder: Folder, version: int) -> list[Stamp]:
    """The state of a commit."""
    entry = log_of(folder).find(commit_name(version))
    return [Stamp("", 0.0) if entry is None else Stamp(entry.tag, entry.changed_s)]


def are_old_enough(stamps: Sequence[Stamp]) -> bool:
    """Whether a later change would have a later time than these."""
    return max(stamp.changed_s for stamp in stamps) < time.time() - _SETTLED_S


def fingerprint(*parts: object) -> str:
    """Identifies what a table was checked for."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class KnownTables:
    """The Delta tables that a run left, by folder."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._tables = tables or {}

    @staticmethod
    def read(path: Path, newest: Term | None) -> "KnownTables":
        """What is known under the destination's newest term; nothing if its run did not end in order."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_bytes())
            if (
                newest is not None
                and newest.ended
                and record["format"] == _FORMAT
                and record["term"] == [newest.number, newest.run]
            ):
                return KnownTables(record["tables"])
        return KnownTables()

    @staticmethod
    def write(path: Path, term: Term, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep what a run knows when nothing writes any more."""
        make_folders(path.parent)
        write_atomically(path, json.dumps({"format": _FORMAT, "term": [term.number, term.run], "tables": tables}))

    def find_unchanged(self, folder: Folder, expectations: str) -> Mapping[str, Any] | None:
        """What is known of a table that was checked for the same and has not changed since.

        None if it must be opened.
        """
        entry = self._tables.get(folder.url)
        if entry is None or entry["checked"] != expectations:
            return None
        now = [*stamps_of(folder), *commit_stamp(folder, entry["log"]["version"])]
        return entry["log"] if [stamp.tag for stamp in now] == entry["stamps"] else None


def describe(folder: Folder, checked: str, log: Mapping[str, Any]) -> dict[str, Any] | None:
    """A table for `KnownTables.write`; None if it has just changed."""
    stamps = [*stamps_of(folder), *commit_stamp(folder, log["version"])]
    if not are_old_enough(stamps):
        return None
    return {"checked": checked, "stamps": [stamp.tag for stamp in stamps], "log": log}
