"""Reads a table back as readers of Iceberg see it: which files it has and which rows are deleted, by its metadata.

The data files are Delta's, so only these are read in another way. What Iceberg does not say, such as the transactions
of a version and when the table was created, the Delta log says of that version.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.base import clock
from engine.base.errors import DestinationError
from engine.capture.landing import Commit, FormatBehindError, VersionFiles
from engine.destination.delta.formats.iceberg_copy import iceberg_folder
from engine.destination.delta.formats.version_changes import changes_nothing
from engine.destination.delta.log.deletion_vectors import Positions, positions, unframed
from engine.destination.delta.log.log_files import newest_version
from engine.destination.delta.read.change_log import ChangeLog
from engine.destination.delta.read.delta_reader import DeltaReader
from engine.destination.delta.read.file_rows import FileDeletes, FileRows, rows_in
from engine.destination.delta.read.mirror import UNREADABLE, Mirror
from engine.destination.iceberg.deletes import DeletedRows, deleted_rows
from engine.destination.iceberg.manifest_files import DATA
from engine.destination.iceberg.manifest_set import MetadataGoneError
from engine.destination.iceberg.metadata import IcebergSnapshot
from engine.destination.iceberg.schemas import IcebergSchema, arrow_type
from engine.destination.iceberg.table import IcebergTable, TableOrigin
from engine.plan.row_conditions import RowCondition, expression_of
from engine.store.folder import Folder

if TYPE_CHECKING:  # importing it imports pandas, which takes a runner half a second to start
    from pyarrow.dataset import Dataset

_PATIENCE_S, _LOOK_S = 30.0, 0.2
_DEFECTS: tuple[type[Exception], ...] = (*UNREADABLE, DestinationError)


class IcebergMirror:
    """A snapshot of the Iceberg table of a Delta table, whatever is committed meanwhile."""

    def __init__(
        self,
        table: IcebergTable,
        delta_folder: Folder,
        snapshot: IcebergSnapshot,
        version: int,
        equal_version: int | None = None,
    ) -> None:
        """version: of the Delta table. equal_version: a later one with the same files; by default, there is none.

        Raises FileNotFoundError, and DestinationError for one that we cannot read.
        """
        self._table = table
        self._delta_folder = delta_folder
        self.version = version
        self._equal_version = version if equal_version is None else equal_version
        with _as_missing():
            manifests = table.files_of(snapshot)
            records = [entry.file for entry in manifests.live_entries(DATA)]
            deletes = deleted_rows(manifests, {record.path for record in records}, _unpacked)
        self._files = {_name_in(delta_folder, record.path): record for record in records}
        self._deletes = {name: _deletes_of(deletes.get(record.path)) for name, record in self._files.items()}
        assert table.metadata is not None
        self.schema = _schema_of(next(one for one in table.metadata.schemas if one.id == snapshot.schema), table.folder)

    @cached_property
    def _rows(self) -> FileRows:
        return rows_in(self._delta_folder, self.schema, self._deletes)

    @cached_property
    def _delta(self) -> Mirror:
        """The version of the Delta table with the same files. Raises DestinationError if its log has it no more.

        The newest one: commits without files have the numbers of epochs that changed nothing.
        """
        delta = Mirror(self._delta_folder).at(self._equal_version)
        if delta is None:
            raise DestinationError(
                f"The version {self._equal_version} of {self._delta_folder.url} is gone.",
                detail="So nobody knows which epochs its Iceberg table has.",
                hint="Wait until the next change is published, and try again.",
            )
        return delta

    @property
    def created_at(self) -> datetime:
        """As the metadata of the Delta table say."""
        return self._delta.created_at

    @property
    def keeps_others_out(self) -> bool:
        """No: a version is files."""
        return False

    def release(self) -> None:
        """It holds nothing."""

    def at(self, version: int) -> "IcebergMirror | None":
        """The snapshot of an earlier version; None without one."""
        metadata = self._table.metadata
        snapshots = () if metadata is None else metadata.snapshots
        snapshot = next((one for one in snapshots if one.version == version), None)
        if snapshot is None:
            return None
        return type(self)(self._table, self._delta_folder, snapshot, version)

    def foreign_commits(self, most: int) -> Sequence[Commit]:
        """Those to the Delta table."""
        return self._delta.foreign_commits(most)

    def transaction(self, application: str) -> int:
        """By the Delta log."""
        return self._delta.transaction(application)

    def batches(self, columns: Sequence[str], condition: RowCondition | None = None) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition; columns that the version lacks are left out."""
        names = [name for name in columns if name in self.schema.names]
        return self._rows.batches(names, None if condition is None else expression_of(condition))

    def count(self, condition: RowCondition) -> int:
        """The number of rows that match the condition."""
        return self._rows.count(expression_of(condition))

    def size(self) -> tuple[int, int]:
        """Its number of rows and the bytes of its files."""
        deleted = sum(one.rows for one in self._deletes.values() if one is not None)
        records = self._files.values()
        return sum(record.rows for record in records) - deleted, sum(record.size for record in records)

    def scan(self) -> "Dataset | VersionFiles":
        """As `Mirror.scan`."""
        if self._rows.dataset is not None:
            return self._rows.dataset
        return VersionFiles(self._delta_folder, self._rows.deleted_rows())


@dataclass(frozen=True)
class IcebergReader:
    """Reads the Iceberg tables of a mirror and its change log.

    delta: reads the tables themselves. in_step: whether a newest version is read only once it has what the Delta table
    has at the call.
    """

    delta: DeltaReader
    in_step: bool = False

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """As of the Delta tables."""
        return UNREADABLE

    @property
    def rewritten_json(self) -> tuple[str, ...]:
        """None: the files are Delta's."""
        return ()

    @property
    def place(self) -> str:
        """The mirror's Iceberg table."""
        return iceberg_folder(self.delta.mirror_folder).url

    def mirror(self, as_of: datetime | None = None) -> IcebergMirror | None:
        """A snapshot of the mirror. Raises FormatBehindError if it stays behind, when it must be in step."""
        return self._version(self.delta.mirror_folder, as_of)

    def log(self, as_of: datetime | None = None) -> IcebergMirror | None:
        """A snapshot of the change log, as `mirror`."""
        return self._version(self.delta.changes_folder, as_of)

    def _version(self, folder: Folder, as_of: datetime | None) -> IcebergMirror | None:
        wanted = _await(folder) if self.in_step and as_of is None else -1
        return _version_of(folder, as_of, wanted)

    def ordered_changes(self) -> ChangeLog:
        """That of the Delta table."""
        return self.delta.ordered_changes()

    def defect(self) -> str:
        """Why the newest snapshot cannot be read, as a clause; "" if its metadata and all its files are there."""
        try:
            self.mirror()
        except _DEFECTS as error:
            return str(error).partition("\n")[0].rstrip(".")
        return self.delta.defect()

    def log_defect(self) -> str:
        """As of the Delta table, whose files it has."""
        return self.delta.log_defect()

    def commits_after(self, version: int) -> Iterator[Commit]:
        """Those to the Delta table."""
        return self.delta.commits_after(version)


def _version_of(delta_folder: Folder, as_of: datetime | None, awaited: int) -> IcebergMirror | None:
    """The newest snapshot, or that of a time; None without one. Raises DestinationError, or what `UNREADABLE` names.

    awaited: a version of the Delta table that an earlier look has proved to have the snapshot's files; -1 for none.
    """
    table = _opened(delta_folder)
    metadata = table.metadata
    if metadata is None or not metadata.snapshots:
        return None
    if as_of is None:
        snapshot, version = metadata.snapshots[-1], table.version
    else:
        at_ms = as_of.timestamp() * 1000
        count = sum(one.at_ms <= at_ms for one in metadata.snapshots)
        if not count:
            raise _expired(table.folder.url, metadata.snapshots[0])
        snapshot, following = metadata.snapshots[count - 1], metadata.snapshots[count : count + 1]
        if snapshot.at_ms < int(at_ms) and any(one.sequence != snapshot.sequence + 1 for one in following):
            raise _sparse(table.folder.url, snapshot, following[0])
        version = snapshot.version
    if version is None:
        raise DestinationError(
            f"Another program has written to the Iceberg table {table.folder.url}: {table.foreign_commit}.",
            detail="The Delta table is right. Tidemark does not read what others commit to its Iceberg tables.",
            hint="The next change of the table publishes it again.",
        )
    equal_version = version if as_of is not None else _last_equal(delta_folder, max(version, awaited))
    return IcebergMirror(table, delta_folder, snapshot, version, equal_version)


def _last_equal(delta_folder: Folder, version: int) -> int:
    """The last version of the Delta table after which nothing has changed since this one."""
    while changes_nothing(delta_folder, version + 1):
        version += 1
    return version


def _opened(delta_folder: Folder) -> IcebergTable:
    table = IcebergTable(iceberg_folder(delta_folder), 3, TableOrigin({}))
    table.load()
    return table


def _expired(place: str, oldest: IcebergSnapshot) -> DestinationError:
    at = datetime.fromtimestamp(oldest.at_ms / 1000, UTC)
    return DestinationError(
        f"The oldest snapshot of {place} is of {at:%Y-%m-%d %H:%M:%S} UTC.",
        detail="Iceberg tables keep fewer versions than Delta tables.",
        hint="Ask for a later time, or read the Delta table.",
    )


def _sparse(place: str, before: IcebergSnapshot, after: IcebergSnapshot) -> DestinationError:
    begin, end = (datetime.fromtimestamp(one.at_ms / 1000, UTC) for one in (before, after))
    return DestinationError(
        f"{place} has no snapshot of that time: one is of {begin:%Y-%m-%d %H:%M:%S.%f}, the next one of "
        f"{end:%Y-%m-%d %H:%M:%S.%f} UTC, and those between have expired.",
        detail="Iceberg tables keep fewer versions than Delta tables.",
        hint="Ask for the time of a snapshot, or read the Delta table.",
    )


def _await(delta_folder: Folder) -> int:
    """Wait until the Iceberg table has what the Delta table has now. Returns that version. Raises FormatBehindError."""
    wanted, deadline_s = newest_version(delta_folder), clock.monotonic_s() + _PATIENCE_S
    while _lacks(delta_folder, _opened(delta_folder).version, wanted):
        if clock.monotonic_s() > deadline_s:
            raise FormatBehindError(
                f"The Iceberg table of {delta_folder.url} does not have version {wanted} yet.",
                detail="The Delta table is right; readers of Iceberg see an earlier version.",
                hint="Start the pipeline if it does not run. The alert format_behind says why it is behind.",
            )
        clock.sleep(_LOOK_S)
    return wanted


def _lacks(delta_folder: Folder, version: int | None, wanted: int) -> bool:
    """Whether a version after this one, up to the wanted one, changes something, or nobody knows that."""
    first = 0 if version is None else version + 1
    return not all(changes_nothing(delta_folder, one) for one in range(first, wanted + 1))


def _name_in(folder: Folder, uri: str) -> str:
    """The name of a data file in the folder of the Delta table."""
    name = uri.removeprefix(f"{folder.url}/")
    if name == uri:
        raise DestinationError(
            f"The Iceberg table of {folder.url} has a file outside of that folder: {uri}.",
            detail="The lake was moved, or another program has written to the Iceberg table. The Delta table is right.",
            hint="The next change of the table publishes it again.",
        )
    return name


def _schema_of(schema: IcebergSchema, folder: Folder) -> pa.Schema:
    try:
        return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in schema.columns])
    except ValueError as error:
        raise DestinationError(
            f"The Iceberg table {folder.url} has {error}, which Tidemark never writes.",
            detail="Another program has changed its columns. The Delta table is right.",
            hint="The next change of the table publishes it again.",
        ) from error


@contextmanager
def _as_missing() -> Iterator[None]:
    """Raises FileNotFoundError for files of the metadata that are gone."""
    try:
        yield
    except MetadataGoneError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(error)) from error


def _deletes_of(deleted: DeletedRows | None) -> FileDeletes | None:
    if deleted is None:
        return None

    def positions_of() -> Positions:
        with _as_missing():
            return deleted.positions()

    return FileDeletes(deleted.rows, positions_of)


def _unpacked(content: bytes) -> Positions:
    return positions(unframed(content))
