"""What a version of a Delta table changes, from its commit; or all that it has, from its log.

Source: Delta transaction log protocol, "Actions" (github.com/delta-io/delta, PROTOCOL.md).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from engine.destination.delta.lake_table import GENERATION, TERM
from engine.destination.delta.log.deletion_vectors import Descriptor, Positions, framed, positions, read_vector
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.schema_evolution import schema_of
from engine.destination.destination_protocol import KINDS, MERGED_SEQ
from engine.destination.iceberg.changes import NewFile, Vector, VersionChange
from engine.store.folder import Folder

COMMIT = "tidemark.commit"
"""The key of a summary with the digest of the Delta commit."""
_OURS = "Tidemark/"
_OUR_NOTES = "tidemark."
_LONGEST_NOTE = 300
"""The most characters of a note in a snapshot: a GTID set may be long. Delta's commit has it whole."""
_WHOLE = ("RESTORE", "FSCK")
"""Our operations whose commits do not list every change: a file that a rollback brings back may have been in the
table before, with other deletes, and a repair removes a file under one of two deletion vectors."""
_KINDS = (*KINDS, MERGED_SEQ, GENERATION, TERM)


class _ActionPart(BaseModel):
    """Part of a commit's file."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True)


class FileStatistics(_ActionPart):
    """What an `add` action says of the rows."""

    num_records: int | None = None
    min_values: dict[str, Any] = {}
    max_values: dict[str, Any] = {}


class FileAction(_ActionPart):
    """An `add` or a `remove` action."""

    path: str
    size: int = 0
    stats: str | None = None
    deletion_vector: dict[str, Any] | None = None

    @property
    def vector(self) -> Descriptor | None:
        """The file's deletion vector."""
        return Descriptor.from_json(self.deletion_vector) if self.deletion_vector else None


class _Metadata(_ActionPart):
    schema_string: str


class _TransactionAction(_ActionPart):
    app_id: str
    version: int


class _CommitInfo(_ActionPart):
    """Any JSON, by Delta's protocol."""

    timestamp: Any = None
    engine_info: Any = None
    operation: Any = None
    user_metadata: Any = None

    @property
    def notes(self) -> dict[str, str]:
        """Our own, of where the commit's epoch ends in the source; empty for other texts."""
        with suppress(ValueError, TypeError):
            content = json.loads(self.user_metadata)
            if isinstance(content, dict):
                return {key: str(text) for key, text in content.items() if key.startswith(_OUR_NOTES)}
        return {}


class _CommitLine(_ActionPart):
    add: FileAction | None = None
    remove: FileAction | None = None
    meta_data: _Metadata | None = None
    txn: _TransactionAction | None = None
    commit_info: _CommitInfo | None = None


@dataclass(frozen=True)
class DeltaCommit:
    """A commit, as its file has it."""

    version: int
    digest: str
    """Identifies its content."""
    at_ms: int = 0
    is_ours: bool = False
    """Whether Tidemark made it, and it changes just what it names."""
    schema: pa.Schema | None = None
    """The new columns, if they change."""
    adds: Mapping[str, FileAction] = field(default_factory=dict)
    """The `add` actions by file."""
    removes: Mapping[str, FileAction] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    """By application identifier."""
    is_unknown: bool = False
    """Whether we cannot read it."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Where its epoch ends in the source."""

    @property
    def changes_nothing(self) -> bool:
        """Whether no file and no column changes."""
        return not self.is_unknown and not self.adds and not self.removes and self.schema is None


def digest_of(content: bytes) -> str:
    """Identifies the content of a commit."""
    return hashlib.sha256(content).hexdigest()[:16]


def commit_content(folder: Folder, version: int) -> bytes | None:
    """A commit of the Delta log; None if it is not there."""
    try:
        return log_of(folder).read(commit_name(version))
    except (FileNotFoundError, NotADirectoryError):
        return None


def changes_nothing(folder: Folder, version: int) -> bool:
    """Whether a version needs no snapshot. False for one whose commit is gone: nobody knows what it changed."""
    content = commit_content(folder, version)
    if content is None:
        return False
    try:
        return commit_of(version, content).changes_nothing
    except ValueError:
        return True  # a power cut tore it: readers do not see it


def commit_of(version: int, content: bytes) -> DeltaCommit:
    """A commit from its file's content. Raises ValueError for one that a power cut tore.

    One that we cannot read otherwise counts as another program's.
    """
    lines = content.splitlines()
    if not lines:
        raise ValueError("an empty commit")
    json.loads(lines[-1])
    try:
        return _parsed(version, content, [_CommitLine.model_validate_json(line) for line in lines])
    except ValueError:
        return DeltaCommit(version, digest_of(content), is_unknown=True)


def _parsed(version: int, content: bytes, lines: Sequence[_CommitLine]) -> DeltaCommit:
    info, schema = _CommitInfo(), None
    adds, removes, transactions = dict[str, FileAction](), dict[str, FileAction](), dict[str, int]()
    for line in lines:
        if line.add is not None:
            adds[unquote(line.add.path)] = line.add
        if line.remove is not None:
            removes[unquote(line.remove.path)] = line.remove
        if line.meta_data is not None:
            schema = pa.schema(Schema.from_json(line.meta_data.schema_string).to_arrow())
        if line.txn is not None:
            transactions[line.txn.app_id] = line.txn.version
        info = line.commit_info or info
    is_ours = str(info.engine_info).startswith(_OURS) and info.operation not in _WHOLE
    at_ms = info.timestamp if type(info.timestamp) is int else 0
    return DeltaCommit(
        version, digest_of(content), at_ms, is_ours, schema, adds, removes, transactions, notes=info.notes
    )


def change_of(folder: Folder, commit: DeltaCommit, ledger: str) -> VersionChange:
    """What one of our own commits to the table in a folder changes. ledger: its identifier."""
    contents = dict[str, bytes]()
    vectors = dict[str, Vector | None]()
    added = list[NewFile]()
    for name, add in commit.adds.items():
        remove = commit.removes.get(name)
        before, after = None if remove is None else remove.vector, add.vector
        if remove is None:
            added.append(_new_file(folder, name, add))
        if before != after:
            vectors[_uri(folder, name)] = None if after is None else _vector(folder, after, before, contents)
    removed = frozenset(_uri(folder, name) for name in commit.removes if name not in commit.adds)
    return VersionChange(
        commit.version, commit.at_ms, commit.schema, added, removed, vectors, summary=_summary(commit, ledger)
    )


def whole_change(folder: Folder, commit: DeltaCommit, ledger: str) -> VersionChange:
    """All that a version of the table in a folder has. Raises DeltaError, OSError or DestinationError."""
    delta, contents = open_table(folder, commit.version), dict[str, bytes]()
    files = files_of(delta, folder)
    vectors = {
        _uri(folder, file.name): _vector(folder, file.vector, None, contents)
        for file in files
        if file.vector is not None
    }
    added = [_stored_file(folder, file) for file in files]
    return VersionChange(
        commit.version,
        commit.at_ms,
        schema_of(delta),
        added,
        vectors=vectors,
        is_whole=True,
        summary=_summary(commit, ledger),
    )


def _summary(commit: DeltaCommit, ledger: str) -> dict[str, str]:
    """Where a snapshot comes from: the commit, the epochs and the term in it, and where they end in the source."""
    own = [(app, number) for app, number in commit.transactions.items() if app.startswith(f"tidemark-{ledger}")]
    kinds = {f"tidemark.{kind}": str(number) for kind in _KINDS for app, number in own if app.endswith(f"-{kind}")}
    # Each commit of Iceberg writes the summaries of all snapshots.
    notes = {key: text for key, text in commit.notes.items() if len(text) <= _LONGEST_NOTE}
    return {COMMIT: commit.digest, **kinds, **notes}


def _uri(folder: Folder, name: str) -> str:
    return f"{folder.url}/{name}"


def _new_file(folder: Folder, name: str, add: FileAction) -> NewFile:
    statistics = FileStatistics.model_validate_json(add.stats or "{}")
    rows = statistics.num_records
    low, high = (
        {column: value for column, value in ends.items() if type(value) is int}
        for ends in (statistics.min_values, statistics.max_values)
    )
    return NewFile(_uri(folder, name), _rows(folder, name) if rows is None else rows, add.size, low, high)


def _stored_file(folder: Folder, file: StoredFile) -> NewFile:
    rows = _rows(folder, file.name) if file.rows < 0 else file.rows
    return NewFile(_uri(folder, file.name), rows, file.bytes, file.low, file.high)


def _rows(folder: Folder, name: str) -> int:
    """The rows of a file that another program added without statistics."""
    with folder.open(name) as source:
        return int(pq.read_metadata(source).num_rows)


def _vector(folder: Folder, now: Descriptor, before: Descriptor | None, contents: dict[str, bytes]) -> Vector:
    """contents: the vector files of the commit that were read, by name."""

    def content() -> bytes:
        return framed(read_vector(folder, now, contents))

    return Vector(now.cardinality, content, _positions(folder, now, contents), _positions(folder, before, contents))


def _positions(folder: Folder, vector: Descriptor | None, contents: dict[str, bytes]) -> Callable[[], Positions]:
    if vector is None:
        return lambda: np.empty(0, np.uint32)
    return lambda: positions(read_vector(folder, vector, contents))
