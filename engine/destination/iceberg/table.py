"""An Iceberg table in a folder, without data files: `metadata/v<n>.metadata.json` is its n-th commit.

A commit creates the next metadata file, which only one writer can do, after all files that it names. It may have many
snapshots. `version-hint.text` names the newest one, and comes last: a reader that finds an older one reads an older
snapshot. Hadoop catalogs of Iceberg commit in the same way.

Snapshots are expired by `expire`, and as `snapshot_history` says. Metadata files that no snapshot needs are deleted
later (`unneeded_files`), and data files never.
"""

import hashlib
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
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
    FileRecord,
    Format,
    ManifestEntry,
    list_content,
    manifests_of,
)
from engine.destination.iceberg.manifest_set import ManifestSet, NextSnapshot
from engine.destination.iceberg.metadata import APPEND, NUMBER, PROPERTIES, VERSION, IcebergSnapshot, TableMetadata
from engine.destination.iceberg.schemas import Evolution, IcebergSchema, evolve
from engine.destination.iceberg.snapshot_history import kept
from engine.destination.iceberg.unneeded_files import UnneededFiles
from engine.store.folder import Folder

POINTER = "version-hint.text"
_DELETED_AT_ONCE = 50
_OLD_METADATA = 100
"""Metadata files that are kept for readers that have just found them."""
_LATER_MS = 60_000
"""How far clocks may be apart."""
_PROGRAMS = ("engine-name", "app-id")
"""The keys of a summary by which other programs name themselves."""


class OtherWriterError(Exception):
    """Another program has committed to the table, so it must be loaded again."""


def metadata_name(number: int) -> str:
    """The name of the file that the n-th commit made."""
    return f"v{number}.metadata.json"


def metadata_number(name: str) -> int:
    """The number of a metadata file by its name; 0 for other files."""
    number = name.removeprefix("v").removesuffix(".metadata.json")
    return int(number) if number.isdecimal() and name == metadata_name(int(number)) else 0


def program_of(summary: Mapping[str, str]) -> str:
    """The program that made a snapshot."""
    return next((summary[key] for key in _PROGRAMS if key in summary), "an unknown program")


@dataclass(frozen=True)
class TableOrigin:
    """Who owns a table, and whose files it has."""

    properties: Mapping[str, str]
    sort_columns: Sequence[str] = ()


class IcebergTable:
    """The Iceberg table in a folder, with write access. `load` comes first.

    spared_file: a metadata file that is needed although it is old; "" for none.
    """

    def __init__(
        self, folder: Folder, format_version: Format, place: TableOrigin, spared_file: Callable[[], str] = lambda: ""
    ) -> None:
        self.folder = folder
        self.metadata: TableMetadata | None = None
        """As of the last load or commit; None if there is no table."""
        self._format = format_version
        self._place = place
        self._spared_file = spared_file
        self._number = 0
        self._pointer = 0
        """The commit that readers find."""
        self._files: ManifestSet | None = None

    @property
    def _metadata_folder(self) -> Folder:
        return self.folder / "metadata"

    @property
    def version(self) -> int | None:
        """The Delta version of the newest snapshot; None if there is none, or another program made it."""
        metadata = self.metadata  # another thread may load the table
        if metadata is None or metadata.newest is None or self._is_foreign(metadata):
            return None
        return metadata.newest.version

    @property
    def foreign_commit(self) -> str:
        """What another program has done in the newest commit, and which program; "" if the commit is ours."""
        metadata = self.metadata
        if metadata is None or not self._is_foreign(metadata):
            return ""
        newest = metadata.newest
        summary = {} if newest is None or newest.version is not None else newest.summary
        return f"{'a commit' if summary else 'a change of columns or properties'} by {program_of(summary)}"

    def _is_foreign(self, metadata: TableMetadata) -> bool:
        """Whether another program made the commit: it repeats our properties, and cannot know the number."""
        return metadata.properties.get(NUMBER) != str(self._number)

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
        folder, number = self._metadata_folder, self._read_pointer()
        self._pointer = number
        if not number or folder.find(metadata_name(number)) is None:
            with suppress(NotADirectoryError):
                number = max((metadata_number(entry.name) for entry in folder.entries("v")), default=0)
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

        Raises OtherWriterError when there is another commit since the last load, OutOfStepError when the newest
        snapshot is not the version before the first change, MetadataGoneError when files of the newest one are gone.
        """
        metadata = self.metadata or self._begin()
        files = self._files or self.files_of(metadata.newest)
        self._files = None  # until all is well
        for change in changes:
            metadata = self._with(metadata, files, change)
        self._put(replace(metadata, snapshots=kept(metadata.snapshots)), files.new_files)
        files.forget_others()
        self._files = files

    def files_of(self, snapshot: IcebergSnapshot | None) -> ManifestSet:
        """The manifests of a snapshot; none before the first one. Raises MetadataGoneError."""
        form = self._format if self.metadata is None else self.metadata.format
        files = ManifestSet(self._metadata_folder, form, ())
        if snapshot is not None:
            files.manifests = manifests_of(files.read_file(snapshot.manifest_list))
        return files

    def expire(self, before_ms: int, oldest_version: int) -> int:
        """Expire the snapshots that a later one replaced before a time, and those of earlier versions.

        The newest one stays. Those of times to come, which a wrong clock gave them, go too: nobody knows their age.
        Returns how many.
        """
        if self.metadata is None:
            return 0
        snapshots, now_ms = self.metadata.snapshots, clock.unix_s() * 1000 + _LATER_MS
        count = 0
        for one, following in pairwise(snapshots):
            is_young = before_ms <= following.at_ms <= now_ms
            if is_young and not (one.version is not None and one.version < oldest_version):
                break
            count += 1
        if count:
            self._put(replace(self.metadata, snapshots=snapshots[count:]), {})
        return count

    def delete_unneeded(self, unneeded: UnneededFiles, guard: Callable[[], object]) -> int:
        """Delete metadata files that no snapshot has needed for an hour. Returns how many.

        guard: called right before; raises PipelineHeldError.
        """
        if self.metadata is None:
            return 0

        def check() -> bool:
            guard()
            return self._metadata_folder.find(metadata_name(self._number + 1)) is None

        return unneeded.delete(self.metadata, check)

    def write_pointer(self) -> None:
        """Name the newest commit to readers, if the last writer was killed before it did."""
        if self._number and self._pointer != self._number and not self.foreign_commit:
            self._metadata_folder.write(POINTER, str(self._number).encode())
            self._pointer = self._number

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

    def _with(self, metadata: TableMetadata, files: ManifestSet, change: VersionChange) -> TableMetadata:
        """The metadata with the snapshot of a version; its files wait in `files`."""
        evolution = (
            Evolution(metadata.schemas[-1], metadata.last_column_id)
            if change.schema is None
            else evolve(metadata.schemas, metadata.last_column_id, change.schema)
        )
        schema, parent = evolution.schema, metadata.newest
        earlier = () if evolution.breaks else [one for one in metadata.schemas if one != schema]
        sequence, now_ms = metadata.last_sequence + 1, round(clock.unix_s() * 1000)
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
            max(min(change.at_ms, now_ms), 0 if parent is None else parent.at_ms),  # readers refuse other orders
            path,
            schema.id,
            {
                "operation": "overwrite" if removed or change.vectors else APPEND,
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
        newest_ms = [] if metadata.newest is None else [metadata.newest.at_ms]
        metadata = replace(
            metadata,
            properties={**metadata.properties, NUMBER: str(number)},
            updated_ms=max([round(clock.unix_s() * 1000), metadata.updated_ms, *newest_ms]),
        )
        steps: list[Callable[[], object]] = [partial(folder.create, *pair) for pair in new_files.items()]
        map_parallel(lambda step: step(), [self._check_newest, *steps], folder.at_once)
        content = metadata.to_json()
        try:
            is_created = bool(folder.create(metadata_name(number), content))
        except UnknownOutcomeError:
            is_created = folder.read(metadata_name(number)) == content
            if not is_created:
                raise
        if not is_created:
            raise OtherWriterError
        self.metadata = metadata
        self._number = number
        with suppress(Exception):  # the commit is made; the next look repeats the rest
            self.write_pointer()
            if number > _OLD_METADATA and number % _DELETED_AT_ONCE == 0:
                last = number - _OLD_METADATA
                names = map(metadata_name, range(max(1, last - 2 * _DELETED_AT_ONCE), last + 1))
                folder.delete({*names} - {self._spared_file()})

    def _check_newest(self) -> None:
        """Raises OtherWriterError if the table is gone, or far ahead: the number of an old commit may be free again."""
        if not self._number:
            return
        pointer = self._read_pointer()
        if pointer == self._number:
            return
        if pointer > self._number or self._metadata_folder.find(metadata_name(self._number)) is None:
            raise OtherWriterError

    def _read_pointer(self) -> int:
        """The number of the commit that readers find; 0 without one."""
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            return int(self._metadata_folder.read(POINTER))
        return 0


def _record(file: NewFile, schema: IcebergSchema) -> FileRecord:
    columns = {column.name: column for column in schema.columns}

    def serialized(bounds: Mapping[str, int]) -> dict[int, bytes]:
        kinds = {"int": "<i", "long": "<q"}
        pairs = ((columns[name], value) for name, value in bounds.items() if name in columns)
        return {one.id: struct.pack(kinds[one.type], value) for one, value in pairs if one.type in kinds}

    return FileRecord(file.uri, file.rows, file.bytes, serialized(file.low), serialized(file.high))
