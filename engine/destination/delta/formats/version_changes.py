"""What a version of a Delta table changes, from its commit; or all that it has, from its log.

Source: Delta transaction log protocol, "Actions" (github.com/delta-io/delta, PROTOCOL.md).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from engine.destination.delta.log.deletion_vectors import Descriptor, Positions, framed, positions, read_vector
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.schema_evolution import schema_of
from engine.destination.iceberg.changes import NewFile, Vector, VersionChange
from engine.store.folder import Folder

COMMIT = "tidemark.commit"
"""The key of a summary with the digest of the Delta commit."""
_OURS = "Tidemark/"


@dataclass(frozen=True)
class DeltaCommit:
    """A commit, as its file has it."""

    version: int
    digest: str
    """Identifies its content."""
    at_ms: int = 0
    is_ours: bool = False
    """Whether Tidemark made it."""
    schema: pa.Schema | None = None
    """The new columns, if they change."""
    adds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The `add` actions by file."""
    removes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    """By application identifier."""

    @property
    def changes_nothing(self) -> bool:
        """Whether no file and no column changes."""
        return not self.adds and not self.removes and self.schema is None


def digest_of(content: bytes) -> str:
    """Identifies the content of a commit."""
    return hashlib.sha256(content).hexdigest()[:16]


def commit_of(version: int, content: bytes) -> DeltaCommit:
    """A commit from its file's content. Raises ValueError for one that a power cut tore."""
    info: dict[str, Any] = {}
    schema: pa.Schema | None = None
    adds, removes, transactions = dict[str, Any](), dict[str, Any](), dict[str, int]()
    for line in content.splitlines():
        action = json.loads(line)
        if "add" in action:
            adds[unquote(action["add"]["path"])] = action["add"]
        elif "remove" in action:
            removes[unquote(action["remove"]["path"])] = action["remove"]
        elif "metaData" in action:
            schema = pa.schema(Schema.from_json(action["metaData"]["schemaString"]).to_arrow())
        elif "txn" in action:
            transactions[action["txn"]["appId"]] = action["txn"]["version"]
        elif "commitInfo" in action:
            info = action["commitInfo"]
    if not content:
        raise ValueError("an empty commit")
    is_ours = str(info.get("engineInfo", "")).startswith(_OURS)
    at_ms = info.get("timestamp")
    at_ms = at_ms if isinstance(at_ms, int) else 0
    return DeltaCommit(version, digest_of(content), at_ms, is_ours, schema, adds, removes, transactions)


def change_of(folder: Folder, commit: DeltaCommit) -> VersionChange:
    """What one of our own commits to the table in a folder changes."""
    contents = dict[str, bytes]()
    vectors = dict[str, Vector | None]()
    added = list[NewFile]()
    for name, add in commit.adds.items():
        remove = commit.removes.get(name)
        before, after = _descriptor(remove), _descriptor(add)
        if remove is None:
            added.append(_new_file(folder, name, add))
        if before != after:
            vectors[_uri(folder, name)] = None if after is None else _vector(folder, after, before, contents)
    removed = frozenset(_uri(folder, name) for name in commit.removes if name not in commit.adds)
    return VersionChange(commit.version, commit.at_ms, commit.schema, added, removed, vectors, summary=_summary(commit))


def whole_change(folder: Folder, commit: DeltaCommit) -> VersionChange:
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
        summary=_summary(commit),
    )


def _summary(commit: DeltaCommit) -> dict[str, str]:
    """Where a snapshot comes from: the commit, and the ledger's identifiers in it (`destination.delta.lake_table`)."""
    return {COMMIT: commit.digest, **{app: str(number) for app, number in commit.transactions.items()}}


def _uri(folder: Folder, name: str) -> str:
    return f"{folder.url}/{name}"


def _descriptor(action: Mapping[str, Any] | None) -> Descriptor | None:
    vector = None if action is None else action.get("deletionVector")
    return Descriptor.from_json(vector) if vector else None


def _new_file(folder: Folder, name: str, add: Mapping[str, Any]) -> NewFile:
    statistics = json.loads(add.get("stats") or "{}")
    rows = statistics.get("numRecords")
    low, high = (
        {column: value for column, value in (statistics.get(ends) or {}).items() if type(value) is int}
        for ends in ("minValues", "maxValues")
    )
    return NewFile(_uri(folder, name), _rows(folder, name) if rows is None else rows, add["size"], low, high)


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
