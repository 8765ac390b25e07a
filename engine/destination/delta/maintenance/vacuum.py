"""Deletes data files and deletion vectors that no longer belong to a table, when `sink.files_retention` is over.

A file's retention begins when a vacuum first finds that the newest version does not name it. That is noted in a file of
the pipeline's folder, so it survives a restart; if the notes are lost, the retention starts over. Neither a file's own
time decides (a restored copy has new ones) nor the tombstones in the Delta log, which would make the checkpoints of a
busy table large.

A table with more versions than `sink.max_versions` keeps a file only as long as its log has a version that needs it
(`destination.delta.log.log_start`), or a backup does (`destination.delta.log.kept_versions`).
"""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from engine.base import clock
from engine.base.durable import make_folders, write_atomically
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.store.folder import Folder

_READERS_FILES = ("chunk-", "changes-")
_READERS_RETENTION = timedelta(hours=1)
"""The least retention of files that readers write: a file without a commit may get one soon."""
_CHUNK, _CHUNK_RETENTION = "chunk-", timedelta(days=1)
"""A throttled reader may write a chunk for hours, while changes of the table are committed every second."""


@dataclass(frozen=True)
class Deletion:
    """The result of a vacuum, or, if nothing was deleted, of a look."""

    files: int
    """Deleted files."""
    bytes: int
    waiting_files: int
    """Files whose retention is not over."""
    waiting_bytes: int
    due_at: datetime | None = None
    """When the next retention is over, or needed files may no longer be; None if there are no such files."""


class Vacuum:
    """The notes of one table: per folder and file, when it was first not named."""

    def __init__(self, notes: Path) -> None:
        self._path = notes
        self._notes: dict[str, dict[str, str]] = {}
        with suppress(FileNotFoundError, ValueError, AttributeError):
            self._notes = {str(k): dict(v) for k, v in json.loads(notes.read_text(encoding="utf-8"))["since"].items()}

    def run(
        self,
        named_files: Mapping[Folder, Collection[str]],
        needed_files: Collection[str],
        retention: timedelta,
        starts: Mapping[Folder, datetime] = MappingProxyType({}),
        *,
        dry_run: bool = False,
    ) -> Deletion:
        """Delete what can be deleted.

        named_files: by folder, the files of the newest version, relative to the folder. needed_files: names that the
        ledger or a backup still needs. starts: by folder, when the oldest version was committed that its log still has;
        a file that no version has needed since then goes before its retention is over.
        """
        now, deletion, notes = clock.utc_now(), Deletion(0, 0, 0, 0), dict[str, dict[str, str]]()
        due_times = list[datetime]()
        for folder, names in named_files.items():
            known_times, since_of, old_names = self._notes.get(folder.name, {}), dict[str, str](), list[str]()
            for name, size in _files(folder):
                if name in names:
                    continue
                if name in needed_files:
                    due_times.append(now)
                    continue
                since = known_times.get(name) or clock.utc_text(now)
                is_over = self._is_over(name, since, retention, now) or _is_before(name, since, starts.get(folder), now)
                if not dry_run and is_over:
                    old_names.append(name)
                    deletion = _plus(deletion, deleted_bytes=size)
                else:
                    since_of[name] = since
                    due_times.append(clock.parse_utc(since) + _min_retention(name, retention))
                    deletion = _plus(deletion, waiting_bytes=size)
            folder.delete(old_names)
            notes[folder.name] = since_of
        if not dry_run and notes != self._notes:
            make_folders(self._path.parent)
            write_atomically(self._path, json.dumps({"since": notes}))
            self._notes = notes
        return replace(deletion, due_at=min(due_times, default=None))

    @staticmethod
    def _is_over(name: str, since: str, retention: timedelta, now: datetime) -> bool:
        return now - clock.parse_utc(since) >= _min_retention(name, retention)


def _is_before(name: str, since: str, start: datetime | None, now: datetime) -> bool:
    """Whether no version of the log has needed a file. start: when its oldest version was committed, if it is cut."""
    at = clock.parse_utc(since)
    return start is not None and at < start and (not name.startswith(_CHUNK) or now - at >= _CHUNK_RETENTION)


def _min_retention(name: str, retention: timedelta) -> timedelta:
    """How long a file is kept."""
    return max(retention, _READERS_RETENTION if name.startswith(_READERS_FILES) else timedelta())


def _plus(deletion: Deletion, *, deleted_bytes: int | None = None, waiting_bytes: int | None = None) -> Deletion:
    if deleted_bytes is not None:
        return Deletion(
            deletion.files + 1, deletion.bytes + deleted_bytes, deletion.waiting_files, deletion.waiting_bytes
        )
    return Deletion(
        deletion.files, deletion.bytes, deletion.waiting_files + 1, deletion.waiting_bytes + (waiting_bytes or 0)
    )


def _files(folder: Folder) -> list[tuple[str, int]]:
    """The data files and vector files of a table, relative to its folder, with their sizes."""
    data = [(entry.name, entry.size) for entry in folder.entries() if entry.name.endswith(".parquet")]
    vectors = [entry for entry in (folder / FOLDER).entries() if entry.name.endswith(".bin")]
    return [*data, *((f"{FOLDER}/{entry.name}", entry.size) for entry in vectors)]
