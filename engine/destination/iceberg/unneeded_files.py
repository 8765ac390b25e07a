"""Deletes metadata files that no snapshot needs: of expired snapshots, and of commits that were killed or too late.

A reader may have found a file before its snapshot expired. So a file is deleted an hour after it was first found to be
unneeded, which is kept in memory: after a restart, the hour begins again.

A file's name begins with the sequence number of the snapshot that it was written for, and an identifier of the attempt.
A manifest is never taken again once a snapshot does without it. So the first snapshot that follows a missing one needs
all of that one's files that any later one needs.
"""

from bisect import bisect_left
from collections.abc import Callable

from engine.base import clock
from engine.base.parallel import map_parallel
from engine.destination.iceberg.manifest_files import DELETES, entries_of, manifests_of
from engine.destination.iceberg.metadata import IcebergSnapshot, TableMetadata
from engine.store.folder import Folder

RETENTION_S = 3600.0


class UnneededFiles:
    """Those of one table. folder: of metadata files."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._since_s: dict[str, float] = {}
        self._needed: dict[int, set[str]] = {}
        """By snapshot that follows a missing one, the files that it needs."""

    def delete(self, metadata: TableMetadata, check: Callable[[], bool]) -> int:
        """Delete what has been unneeded for an hour. Returns how many files.

        check: called right before; False if another commit has been made since. Files of later commits are left alone.
        """
        now_s, unneeded = clock.monotonic_s(), self._unneeded(metadata)
        self._since_s = {name: self._since_s.get(name, now_s) for name in unneeded}
        names = [name for name, since_s in self._since_s.items() if now_s - since_s >= RETENTION_S]
        if not names or not check():
            return 0
        self._folder.delete(names)
        return len(names)

    def _unneeded(self, metadata: TableMetadata) -> list[str]:
        snapshots = metadata.snapshots
        if not snapshots:
            return []
        attempts = {attempt_of(one.manifest_list) for one in snapshots}
        sequences = [one.sequence for one in snapshots]
        needed = {one.id: self._needed[one.id] for one in snapshots[1:] if one.id in self._needed}
        self._needed = {snapshots[0].id: self._needed_by(snapshots[0]), **needed}

        def is_needed(name: str, sequence: int) -> bool:
            if attempt_of(name) in attempts:
                return True
            following = bisect_left(sequences, sequence)
            if following == len(sequences) or sequences[following] == sequence:
                return False  # an attempt that came too late
            snapshot = snapshots[following]
            if snapshot.id not in self._needed:
                self._needed[snapshot.id] = self._needed_by(snapshot)
            return name in self._needed[snapshot.id]

        return [
            entry.name
            for entry in self._folder.entries()
            if (sequence := _sequence_of(entry.name)) is not None
            and sequence <= metadata.last_sequence
            and not is_needed(entry.name, sequence)
        ]

    def _needed_by(self, snapshot: IcebergSnapshot) -> set[str]:
        """The names of the metadata files of a snapshot."""
        manifests = manifests_of(self._folder.read(name_of(snapshot.manifest_list)))
        deletes = [one for one in manifests if one.content == DELETES]
        contents = map_parallel(lambda one: self._folder.read(name_of(one.path)), deletes, self._folder.at_once)
        live = (entry for content, one in zip(contents, deletes, strict=True) for entry in entries_of(content, one))
        names = {name_of(one.path) for one in manifests} | {name_of(entry.file.path) for entry in live}
        return {*names, name_of(snapshot.manifest_list)}


def name_of(uri: str) -> str:
    """The name of a metadata file."""
    return uri.rpartition("/")[2]


def attempt_of(path: str) -> str:
    """What the files of one attempt to commit a snapshot have in common."""
    return "-".join(name_of(path).split("-")[:2])


def _sequence_of(name: str) -> int | None:
    """The sequence number in the name of a file of a snapshot; None for other files."""
    number = name.partition("-")[0]
    return int(number) if len(number) == 20 and number.isdecimal() else None
