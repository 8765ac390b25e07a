"""Deletes data files and deletion vectors that no longer belong to a table, when `sink.files_retention` is over.

A file's retention begins when a vacuum first finds that the newest version does not name it. That is noted in a file of
the pipeline's folder, so it survives a restart; if the notes are lost, the retention starts over. Neither a file's own
time decides (a restored copy has new ones) nor the tombstones in the Delta log, which would make the checkpoints of a
busy table large.

A table with more versions than `sink.max_versions` keeps a file only as long as its log has a version that needs it
(`destination.delta.log.log_start`), or a backup does (`destination.delta.log.kept_versions`). So does a table whose
earlier versions have more than four times as many files: a commit may take several epochs, each with files of its own.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from engine.base import clock
from engine.base.durable import make_folders, write_atomically
from engine.base.json_records import record_from
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.destination.delta.read.file_rows import is_own
from engine.store.folder import Folder

_READERS_FILES = ("chunk-", "changes-")
_READERS_RETENTION = timedelta(hours=1)
"""The least retention of files that readers write: a file without a commit may get one soon."""
_FILES_PER_VERSION = 4
"""Files that only earlier versions need: this many for each version that a table keeps."""
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


@dataclass(frozen=True)
class _Notes:
    """By folder and file name, when the newest version was first found not to name it, and which version that was."""

    since: dict[str, dict[str, str]]
    """UTC text."""
    versions: dict[str, dict[str, int]] = field(default_factory=dict)
    """Earlier notes lack them: then the next vacuum notes its own."""


class Vacuum:
    """The notes of one table."""

    def __init__(self, notes: Path) -> None:
        self._path = notes
        self._notes = _Notes({}, {})
        with suppress(FileNotFoundError, ValueError, AttributeError):
            self._notes = record_from(_Notes, json.loads(notes.read_text(encoding="utf-8"))) or self._notes

    def crowded(self, folder: Folder, max_versions: int) -> int:
        """The newest version of a folder's table that must go because earlier versions have too many files; else -1.

        max_versions: `sink.max_versions`. It counts the files that earlier vacuums noted.
        """
        versions = sorted(self._notes.versions.get(folder.name, {}).values(), reverse=True)
        most = _FILES_PER_VERSION * max_versions
        return versions[most] if len(versions) > most else -1

    def run(
        self,
        named_files: Mapping[Folder, Collection[str]],
        needed_files: Collection[str],
        retention: timedelta,
        newest: Mapping[Folder, int],
        starts: Mapping[Folder, int] = MappingProxyType({}),
        *,
        dry_run: bool = False,
    ) -> Deletion:
        """Delete what can be deleted.

        named_files: by folder, the files of the newest version, relative to the folder. needed_files: names that the
        ledger or a backup still needs. newest: by folder, that version's number. starts: by folder, the oldest version
        that its log still has, if older ones were deleted; a file of ours that none of these needs goes before its
        retention is over.
        """
        now, deletion, notes = clock.utc_now(), Deletion(0, 0, 0, 0), _Notes({}, {})
        due_times = list[datetime]()
        for folder, names in named_files.items():
            since_of, version_of, old_names = dict[str, str](), dict[str, int](), list[str]()
            known_times, known_versions = (
                self._notes.since.get(folder.name, {}),
                self._notes.versions.get(folder.name, {}),
            )
            for name, size in _files(folder):
                if name in names:
                    continue
                if name in needed_files:
                    due_times.append(now)
                    continue
                since = known_times.get(name) or clock.utc_text(now)
                version = known_versions.get(name, newest.get(folder, -1))
                is_unnamed = version < starts.get(folder, -1)
                is_over = self._is_over(name, since, retention, now) or (
                    is_unnamed and _is_short_lived(name, now - clock.parse_utc(since))
                )
                if not dry_run and is_over:
                    old_names.append(name)
                    deletion = _plus(deletion, deleted_bytes=size)
                else:
                    since_of[name] = since
                    version_of[name] = version
                    due_times.append(clock.parse_utc(since) + _min_retention(name, retention))
                    deletion = _plus(deletion, waiting_bytes=size)
            folder.delete(old_names)
            notes.since[folder.name] = since_of
            notes.versions[folder.name] = version_of
        if not dry_run and notes != self._notes:
            make_folders(self._path.parent)
            write_atomically(self._path, json.dumps(vars(notes)))
            self._notes = notes
        return replace(deletion, due_at=min(due_times, default=None))

    @staticmethod
    def _is_over(name: str, since: str, retention: timedelta, now: datetime) -> bool:
        return now - clock.parse_utc(since) >= _min_retention(name, retention)


def _is_short_lived(name: str, age: timedelta) -> bool:
    """Whether a file is gone when no version of a shortened log needs it.

    Others may commit theirs later, and so may readers.
    """
    if name.startswith(_CHUNK):
        return age >= _CHUNK_RETENTION
    return name.startswith(f"{FOLDER}/") or is_own(name)


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
