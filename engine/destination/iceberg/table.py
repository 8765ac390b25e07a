"""An Iceberg table in a folder, without data files: `metadata/v<n>.metadata.json` is its n-th commit.

A commit creates the next metadata file, which only one writer can do, after all files that it names. It may have many
snapshots. `version-hint.text` names the newest one, and comes last: a reader that finds an older one reads an older
snapshot. Hadoop catalogs of Iceberg commit in the same way.

Snapshots are expired by `expire`, and files that no snapshot needs are deleted: only those beside the table's metadata,
never data files.
"""

import hashlib
import struct
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.base import clock
from engine.base.durable import UnknownOutcomeError
from engine.base.errors import DestinationError
from engine.base.parallel import map_parallel
from engine.destination.iceberg.changes import NewFile, VersionChange
from engine.destination.iceberg.deletes import change_deletes
from engine.destination.iceberg.manifest_files import (
    ADDED,
    DATA,
    DELETES,
    FileRecord,
    Format,
    ManifestEntry,
    all_paths,
    entries_of,
    list_content,
    manifests_of,
)
from engine.destination.iceberg.manifest_set import ManifestSet, NextSnapshot
from engine.destination.iceberg.metadata import NUMBER, PROPERTIES, VERSION, IcebergSnapshot, TableMetadata
from engine.destination.iceberg.schemas import Evolution, IcebergSchema, evolve
from engine.store.folder import Folder

POINTER = "version-hint.text"
MOST_SNAPSHOTS = 500
"""The most snapshots: each commit writes what it says of all of them."""
_EXPIRED_AT_ONCE = 50
_OLD_METADATA = 100
"""Metadata files that are kept for readers that have just found them."""
_ORPHAN_S = 3600.0
_PROGRAMS = ("engine-name", "app-id")
"""The keys of a summary by which other programs name themselves."""


class OtherWriterError(Exception):
    """Another program has committed to the table, so it must be loaded again."""


def metadata_name(number: int) -> str:
    """The name of the file that the n-th commit made."""
    return f"v{number}.metadata.json"


@dataclass(frozen=True)
class TableOrigin:
    """Who owns a table, and whose files it has."""

    properties: Mapping[str, str]
    sort_columns: Sequence[str] = ()


class IcebergTable:
    """The Iceberg table in a folder, with write access. `load` comes first."""

    def __init__(self, folder: Folder, format_version: Format, place: TableOrigin) -> None:
        self.folder = folder
        self.metadata: TableMetadata | None = None
        """As of the last load or commit; None if there is no table."""
        self._format = format_version
        self._place = place
        self._number = 0
        self._files: ManifestSet | None = None

    @property
    def _metadata_folder(self) -> Folder:
        return self.folder / "metadata"

    @property
    def version(self) -> int | None:
        """The version of which the newest snapshot has the files.

        None if there is no snapshot, or another program made it.
        """
        newest = None if self.metadata is None or self.foreign_commit else self.metadata.newest
        return None if newest is None else newest.version

    @property
    def foreign_commit(self) -> str:
        """What another program has done in the newest commit, and which program; "" if the commit is ours."""
        if self.metadata is None or self.metadata.properties.get(NUMBER) == str(self._number):
            return ""
        newest = self.metadata.newest
        summary = {} if newest is None or newest.version is not None else newest.summary
        program = next((summary[key] for key in _PROGRAMS if key in summary), "an unknown program")
        return f"{'a commit' if summary else 'a change of columns or properties'} by {program}"

    @property
    def metadata_uri(self) -> str:
        """The URI of the newest metadata file, by which some readers open the table."""
        return f"{self._metadata_folder.url}/{metadata_name(self._number)}"

    def load(self) -> None:
        """Read the newest metadata. Raises DestinationError if it cannot be read."""
        self._files = None
        self.metadata = None
        self._number = self._newest_number()
        if not self._number:
            return
        name = metadata_name(self._number)
        try:
            self.metadata = TableMetadata.from_json(self._metadata_folder.read(name))
        except ValueError as error:
            raise DestinationError(
                f"The Iceberg metadata {self._metadata_folder.url}/{name} cannot be read: {error}",
                detail="The Delta table beside it is right, and nothing was written.",
                hint=f"Delete the folder {self.folder.url}: the next commit publishes the table there again.",
            ) from error

    def _newest_number(self) -> int:
        """The number of the newest metadata file; 0 without one."""
        folder, number = self._metadata_folder, 0
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            number = int(folder.read(POINTER))
        if not number or folder.find(metadata_name(number)) is None:
            number = max((_number_of(entry.name) for entry in folder.entries("v")), default=0)
        while folder.find(metadata_name(number + 1)) is not None:
            number += 1
        return number

    def begin_again(self) -> None:
        """Forget the snapshots: the next commit begins with none of them. Their files are deleted as orphans."""
        if self.metadata is not None:
            sequence = self.metadata.last_sequence
            self.metadata = replace(self._begin(), last_sequence=sequence)
            self._files = None

    def commit(self, changes: Sequence[VersionChange]) -> None:
        """Commit a snapshot for each version, in order.

        Raises OtherWriterError when another program has committed since the last load, OutOfStepError when the newest
        snapshot is not the version before the first change.
        """
        metadata = before = self.metadata or self._begin()
        files = self._files or self._read_files(metadata)
        self._files = None  # until all is well
        for change in changes:
            metadata = self._with(metadata, files, change)
        over = len(metadata.snapshots) - MOST_SNAPSHOTS
        snapshots = metadata.snapshots[over:] if over >= _EXPIRED_AT_ONCE else metadata.snapshots
        self._put(replace(metadata, snapshots=snapshots), files.new_files)
        files.forget_others()
        self._files = files
        remaining = {one.id for one in snapshots}
        self._delete_unneeded([one for one in before.snapshots if one.id not in remaining])

    def expire(self, before_ms: int, oldest_version: int) -> int:
        """Expire the snapshots that a later one replaced before a time, and those of earlier versions.

        The newest one stays. Returns how many.
        """
        if self.metadata is None:
            return 0
        snapshots = self.metadata.snapshots
        count = 0
        for one, following in pairwise(snapshots):
            if following.at_ms >= before_ms and not (one.version is not None and one.version < oldest_version):
                break
            count += 1
        if count:
            self._put(replace(self.metadata, snapshots=snapshots[count:]), {})
            self._delete_unneeded(snapshots[:count])
        return count

    def delete_orphans(self) -> int:
        """Delete files that commits left behind which were killed or came too late. Returns how many."""
        if self.metadata is None or not self.metadata.snapshots:
            return 0
        now_s, snapshots = clock.unix_s(), self.metadata.snapshots
        prefixes = {_prefix(one.manifest_list) for one in snapshots}
        old, oldest_sequence = self._needed_by(snapshots[0]), snapshots[0].sequence
        names = [
            entry.name
            for entry in self._metadata_folder.entries()
            if now_s - entry.changed_s > _ORPHAN_S
            and (sequence := _sequence_of(entry.name)) is not None
            and (entry.name not in old if sequence < oldest_sequence else _prefix(entry.name) not in prefixes)
        ]
        self._metadata_folder.delete(names)
        return len(names)

    def _begin(self) -> TableMetadata:
        return TableMetadata(
            self._format,
            str(uuid.uuid4()),
            self.folder.url,
            (),
            0,
            self._place.sort_columns,
            {**PROPERTIES, **self._place.properties},
        )

    def _read_files(self, metadata: TableMetadata) -> ManifestSet:
        newest = metadata.newest
        manifests = [] if newest is None else manifests_of(self._metadata_folder.read(_name(newest.manifest_list)))
        return ManifestSet(self._metadata_folder, self._format, manifests)

    def _with(self, metadata: TableMetadata, files: ManifestSet, change: VersionChange) -> TableMetadata:
        """The metadata with the snapshot of a version; its files wait in `files`."""
        evolution = (
            Evolution(metadata.schemas[-1], metadata.last_column_id)
            if change.schema is None
            else evolve(metadata.schemas, metadata.last_column_id, change.schema)
        )
        schema, parent = evolution.schema, metadata.newest
        earlier = () if evolution.breaks else [one for one in metadata.schemas if one != schema]
        sequence = metadata.last_sequence + 1
        prefix = f"{sequence:020d}-{uuid.uuid4().hex[:12]}"
        identity = hashlib.sha256(f"{metadata.uuid}-{prefix}".encode()).digest()
        following = NextSnapshot(int.from_bytes(identity[:8], "big") >> 2 or 1, sequence, schema, prefix)
        new_files, removed = change.added, change.removed
        if change.is_whole:
            live = {entry.file.path for entry in files.live_entries(DATA)}
            removed = frozenset(live - {file.uri for file in new_files})
            new_files = [file for file in new_files if file.uri not in live]
        added = [ManifestEntry(ADDED, following.id, None, _record(file, schema)) for file in new_files]
        files.change(following, DATA, removed, added)
        change_deletes(files, change, following)
        row_id = files.assign_row_ids(metadata.next_row_id) if self._format == 3 else 0
        parent_id = None if parent is None or evolution.breaks else parent.id
        content = list_content(self._format, following.id, parent_id, sequence, metadata.next_row_id, files.manifests)
        path = files.add_file(f"{prefix}-snap.avro", content)
        snapshot = IcebergSnapshot(
            following.id,
            sequence,
            max(change.at_ms, 0 if parent is None else parent.at_ms),  # readers refuse times that go back
            path,
            schema.id,
            {
                "operation": "overwrite" if removed or change.vectors else "append",
                VERSION: str(change.version),
                **change.summary,
                "added-data-files": str(len(added)),
                "deleted-data-files": str(len(removed)),
            },
            parent_id,
            metadata.next_row_id if self._format == 3 else None,
            row_id - metadata.next_row_id if self._format == 3 else None,
        )
        return replace(
            metadata,
            schemas=[*earlier, schema],
            last_column_id=evolution.last_column_id,
            sort_columns=self._place.sort_columns,
            properties={**metadata.properties, **PROPERTIES, **self._place.properties},
            snapshots=[*(() if evolution.breaks else metadata.snapshots), snapshot],
            last_sequence=sequence,
            next_row_id=row_id,
        )

    def _put(self, metadata: TableMetadata, new_files: Mapping[str, bytes]) -> None:
        """Store the files, then commit the metadata that names them. Raises OtherWriterError."""
        folder, number = self._metadata_folder, self._number + 1
        metadata = replace(
            metadata,
            properties={**metadata.properties, NUMBER: str(number)},
            updated_ms=max(round(clock.unix_s() * 1000), metadata.updated_ms),
        )
        map_parallel(lambda pair: folder.create(*pair), new_files.items(), folder.at_once)
        content = metadata.to_json()
        try:
            is_created = bool(folder.create(metadata_name(number), content))
        except UnknownOutcomeError:
            is_created = folder.read(metadata_name(number)) == content
            if not is_created:
                raise
        if not is_created:
            self.metadata = None
            raise OtherWriterError
        folder.write(POINTER, str(number).encode())
        self.metadata = metadata
        self._number = number
        if number > _OLD_METADATA and number % _EXPIRED_AT_ONCE == 0:
            last = number - _OLD_METADATA
            folder.delete(metadata_name(old) for old in range(max(1, last - 2 * _EXPIRED_AT_ONCE), last + 1))

    def _delete_unneeded(self, expired: Sequence[IcebergSnapshot]) -> None:
        """Delete the files that only these snapshots needed, which were the oldest ones."""
        if not expired or self.metadata is None:
            return
        folder = self._metadata_folder
        lists = [_name(one.manifest_list) for one in expired]
        needed, manifests = self._needed_by(self.metadata.snapshots[0]), dict[str, int]()
        for content in map_parallel(folder.read, lists, folder.at_once):
            manifests |= {_name(one.path): one.content for one in manifests_of(content)}
        unneeded = [name for name in manifests if name not in needed]
        deletes = [name for name in unneeded if manifests[name] == DELETES]
        paths = set[str]().union(*map(all_paths, map_parallel(folder.read, deletes, folder.at_once)))
        folder.delete([name for name in map(_name, paths) if name not in needed])
        folder.delete(unneeded)
        folder.delete(lists)

    def _needed_by(self, snapshot: IcebergSnapshot) -> set[str]:
        """The names of the metadata files of a snapshot. Later ones have these, and none that is older."""
        folder = self._metadata_folder
        manifests = manifests_of(folder.read(_name(snapshot.manifest_list)))
        deletes = [one for one in manifests if one.content == DELETES]
        contents = map_parallel(lambda one: folder.read(_name(one.path)), deletes, folder.at_once)
        live = (entry for content, one in zip(contents, deletes, strict=True) for entry in entries_of(content, one))
        return (
            {_name(one.path) for one in manifests}
            | {_name(entry.file.path) for entry in live}
            | {_name(snapshot.manifest_list)}
        )


def _record(file: NewFile, schema: IcebergSchema) -> FileRecord:
    columns = {column.name: column for column in schema.columns}

    def serialized(bounds: Mapping[str, int]) -> dict[int, bytes]:
        kinds = {"int": "<i", "long": "<q"}
        pairs = ((columns[name], value) for name, value in bounds.items() if name in columns)
        return {one.id: struct.pack(kinds[one.type], value) for one, value in pairs if one.type in kinds}

    return FileRecord(file.uri, file.rows, file.bytes, serialized(file.low), serialized(file.high))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _prefix(path: str) -> str:
    """What the files of one snapshot have in common: its sequence number, and an identifier of the attempt."""
    return "-".join(_name(path).split("-")[:2])


def _sequence_of(name: str) -> int | None:
    """The sequence number in the name of a file of a snapshot; None for other files."""
    number = name.partition("-")[0]
    return int(number) if len(number) == 20 and number.isdecimal() else None


def _number_of(name: str) -> int:
    """The number of a metadata file; 0 for other files."""
    number = name.removeprefix("v").removesuffix(".metadata.json")
    return int(number) if number.isdecimal() and name == metadata_name(int(number)) else 0
