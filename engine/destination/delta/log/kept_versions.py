"""Versions that backups need, of tables whose logs no longer have them.

A backup names a version of each Delta table, and leaves a note of them in the destination, one small file for all
tables: `_tidemark/<ledger>/backup-<time>-<id>.json`. Before a table's log loses a version of a note
(`destination.delta.log.log_start`), what a rollback needs of it is written to
`_tidemark/<ledger>/versions/<database>/<table>/<version>-<id of the Delta table>.json`: columns, identifiers and files.
The vacuum spares these files. So only a table that changes very often pays for a backup. A note counts for
`sink.files_retention`, as long as the files of other tables stay.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.json_records import record_from
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.deletion_vectors import Descriptor
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.log.log_start import LogStart
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.schema_evolution import schema_of
from engine.destination.fence import TERMS
from engine.store.folder import Folder

_NOTE, _VERSIONS = "backup-", "versions"


@dataclass(frozen=True)
class _BackupNote:
    """What a backup leaves."""

    made: str
    """UTC text."""
    versions: Mapping[str, Mapping[str, int]]
    """By the table's full name and the name of its folder."""

    def to_version(self, table: str, folder: str) -> int | None:
        """That of a table's folder, if the backup has it."""
        return next((n for name, n in dict(self.versions.get(table, {})).items() if name == folder), None)


@dataclass(frozen=True)
class _VersionRecord:
    """The content of a kept version's file."""

    identity: str
    transactions: Mapping[str, int]
    schema: str
    """As in a `metaData` action."""
    files: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class OldVersion:
    """What a rollback needs of an earlier version."""

    identity: str
    """The Delta table's."""
    transactions: Mapping[str, int]
    """Application identifiers and their versions."""
    schema: pa.Schema
    files: tuple[StoredFile, ...]

    @classmethod
    def from_log(cls, folder: Folder, version: int, apps: Iterable[str]) -> Self:
        """A version that the log has. apps: application identifiers. Raises DeltaError, OSError or StoreAwayError."""
        delta = open_table(folder, version)
        numbers = {app: delta.transaction_version(app) for app in apps}
        transactions = {app: int(number) for app, number in numbers.items() if number is not None}
        return cls(str(delta.metadata().id), transactions, schema_of(delta), tuple(files_of(delta, folder)))

    @classmethod
    def from_text(cls, content: bytes) -> Self:
        """The inverse of `to_text`. Raises ValueError."""
        record = record_from(_VersionRecord, json.loads(content))
        if record is None:
            raise ValueError("not a version")
        schema = pa.schema(Schema.from_json(record.schema).to_arrow())
        return cls(record.identity, record.transactions, schema, tuple(map(_stored_file, record.files)))

    def to_text(self) -> bytes:
        """The content of its file."""
        schema = Schema.from_arrow(pa.schema([column.with_nullable(True) for column in self.schema])).to_json()
        files = [file.as_dict() for file in self.files]
        return json.dumps(vars(_VersionRecord(self.identity, self.transactions, schema, files))).encode()

    def file_names(self) -> Iterator[str]:
        """Its data files and files of deletion vectors."""
        for file in self.files:
            yield file.name
            if file.vector is not None and file.vector.file is not None:
                yield file.vector.file


def _stored_file(record: Mapping[str, Any]) -> StoredFile:
    vector = record_from(Descriptor, dict(record).pop("vector", None))
    return StoredFile(**{**record, "vector": vector})


class KeptVersions:
    """The notes of backups in a destination, and the versions that were kept for them. ledger: its identifier."""

    def __init__(self, root: Folder, ledger: str) -> None:
        self._folder = root / TERMS / ledger

    def note(self, versions: Mapping[str, Mapping[str, int]], since: datetime) -> None:
        """Keep these versions from now on: by the table's full name and the name of its folder.

        since: earlier notes count no more, and are deleted.
        """
        self._folder.delete([entry.name for entry in self._folder.entries(_NOTE) if _made(entry.name) < since])
        name = f"{_NOTE}{clock.utc_now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}.json"
        self._folder.create(name, json.dumps(vars(_BackupNote(clock.utc_text(), versions))).encode())

    def wanted(self, table: str, folder: Folder, since: datetime) -> set[int]:
        """The versions of one of a table's folders that notes name which were made since a time."""
        versions = set[int]()
        for entry in self._folder.entries(_NOTE):
            if _made(entry.name) < since:
                continue
            with suppress(FileNotFoundError, ValueError):  # another backup has deleted it, or nobody can read it
                note = _read_note(self._folder, entry.name, entry.tag)  # type: ignore[arg-type]
                if note is not None and (version := note.to_version(table, folder.name)) is not None:
                    versions.add(version)
        return versions

    def keep(self, folder: Folder, wanted: Iterable[int], start: LogStart, apps: Iterable[str]) -> set[str]:
        """Keep the wanted versions before the one with which the log is to begin, and delete what is not wanted.

        Returns the files that they need, vectors included. A version that the log does not have, or not any more, is
        not kept. Raises DeltaError or OSError for one that cannot be read: the log must keep it then.
        """
        place, names = self._place(folder), set[str]()
        there = {entry.name for entry in place.entries()}
        wanted_names = {_name(version, start.identity): version for version in wanted}
        for name, version in wanted_names.items():
            if version >= start.version:
                continue
            if name in there:
                names |= set(OldVersion.from_text(place.read(name)).file_names())
                continue
            if log_of(folder).find(commit_name(version)) is not None:
                old = OldVersion.from_log(folder, version, apps)
                place.create(name, old.to_text())
                names |= set(old.file_names())
        place.delete(sorted(there - wanted_names.keys()))
        return names

    def old_version(self, folder: Folder, version: int, apps: Iterable[str]) -> OldVersion:
        """A version of the Delta table in a folder: from its log, or as it was kept. Raises DestinationError."""
        try:
            return OldVersion.from_log(folder, version, apps)
        except (StoreAwayError, StoreAccessError):
            raise
        except (DeltaError, OSError) as error:
            with suppress(FileNotFoundError):
                identity = str(open_table(folder).metadata().id)
                return OldVersion.from_text(self._place(folder).read(_name(version, identity)))
            raise DestinationError(
                f"The version {version} of {folder.url} is missing: {error}",
                detail="The table is older than the backup, or its log was cleaned up. It was not changed.",
                hint="Put a copy of that folder back which is as new as the backup, then restore again; "
                "or resnapshot the table.",
            ) from error

    def _place(self, folder: Folder) -> Folder:
        return self._folder / _VERSIONS / folder.parent.name / folder.name


def _name(version: int, identity: str) -> str:
    """identity: the Delta table's; one that was dropped and created again has another."""
    return f"{version:020d}-{identity}.json"


def _made(name: str) -> datetime:
    """When a note was made, by its name; the name of something else is too old."""
    with suppress(ValueError):
        return datetime.strptime(name.removeprefix(_NOTE)[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=1024)
def _read_note(folder: Folder, name: str, tag: str) -> _BackupNote | None:  # noqa: ARG001 - another file, another tag
    """A note, which never changes."""
    return record_from(_BackupNote, json.loads(folder.read(name)))
