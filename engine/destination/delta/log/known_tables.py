"""What a run that ended in order knew of its Delta tables.

So the next run opens only those that have changed since.

To open a table, its log since the last checkpoint is read: some milliseconds, which are seconds for hundreds of tables.
A table is unchanged if neither its folders nor the newest commit have another inode or change time (`ctime`, which no
tool can set back): then no file was added, removed or renamed there. The knowledge is used only if the destination's
newest term is that of the run, and it ended in order (`destination.fence`): after a crash, and after any other runner,
all tables are opened and checked.

It is a cache in the pipeline's folder, and can be deleted at any time.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.base.durable import make_folders, write_atomically
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.destination.delta.log.log_files import commit_file, log_of
from engine.destination.fence import Term

_FORMAT = 1
_SETTLED_NS = 2_000_000_000
"""A folder whose last change is younger than this is not remembered: another change may have the same time."""
Stamps = list[tuple[int, int]]


def stamps_of(folder: Path) -> Stamps:
    """Inode and change time of a Delta table's folders: its own, of its deletion vectors, of its log."""
    return list(_stamps((folder, folder / FOLDER, log_of(folder))))


def commit_stamp(folder: Path, version: int) -> Stamps:
    """Inode and change time of a commit."""
    return list(_stamps((commit_file(log_of(folder), version),)))


def _stamps(paths: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            found = path.stat()
        except FileNotFoundError:
            yield 0, 0
        else:
            yield found.st_ino, found.st_ctime_ns


def are_old_enough(stamps: Stamps) -> bool:
    """Whether a later change would have a later time than these."""
    return max(changed_ns for _, changed_ns in stamps) < time.time_ns() - _SETTLED_NS


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
            found = json.loads(path.read_bytes())
            if (
                newest is not None
                and newest.ended
                and found["format"] == _FORMAT
                and found["term"] == [newest.number, newest.run]
            ):
                return KnownTables(found["tables"])
        return KnownTables()

    @staticmethod
    def write(path: Path, term: Term, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep what a run knows when nothing writes any more."""
        make_folders(path.parent)
        write_atomically(path, json.dumps({"format": _FORMAT, "term": [term.number, term.run], "tables": tables}))

    def find_unchanged(self, folder: Path, expectations: str) -> Mapping[str, Any] | None:
        """What is known of a table that was checked for the same and has not changed since.

        None if it must be opened.
        """
        found = self._tables.get(str(folder))
        if found is None or found["checked"] != expectations:
            return None
        now = [*stamps_of(folder), *commit_stamp(folder, found["log"]["version"])]
        return found["log"] if [list(stamp) for stamp in now] == found["stamps"] else None


def describe(folder: Path, checked: str, log: Mapping[str, Any]) -> dict[str, Any] | None:
    """A table for `KnownTables.write`; None if it has just changed."""
    stamps = [*stamps_of(folder), *commit_stamp(folder, log["version"])]
    return {"checked": checked, "stamps": stamps, "log": log} if are_old_enough(stamps) else None
