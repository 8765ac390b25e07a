"""The content of a Delta commit, and the data files of a version.

Source: Delta transaction log protocol, "Actions" and "Per-file Statistics" (github.com/delta-io/delta, PROTOCOL.md).
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable, Schema

from engine import __version__
from engine.base import clock
from engine.capture.files import DataFile
from engine.decode.schema import TM_TS
from engine.destination.delta.log.deletion_vectors import Descriptor

VECTORS_ENABLED = "delta.enableDeletionVectors"
LEGACY_WRITER = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StoredFile(DataFile):
    """A data file of a table's version. `rows` includes the rows that its deletion vector deletes."""

    vector: Descriptor | None = None

    @property
    def deleted_rows(self) -> int:
        """The number of deleted rows."""
        return 0 if self.vector is None else self.vector.cardinality


@dataclass(frozen=True)
class Actions:
    """The content of a commit."""

    operation: str
    """The operation in the table's history, in Delta's terms ("WRITE", "MERGE", …)."""
    transactions: Mapping[str, int]
    """Application identifiers and their new versions."""
    add: Sequence[DataFile] = ()
    """Files that are already in the table's folder."""
    remove: Sequence[DataFile] = ()
    """Files of the previous version."""
    metadata: Mapping[str, Any] | None = None
    """The new `metaData` action if the columns or properties change."""
    protocol: Mapping[str, Any] | None = None
    """The new `protocol` action if the table needs more features."""
    data_change: bool = True
    """Whether rows change; False if the commit only moves them to other files, and repeats the metadata."""
    mode: str = "Append"
    """Also for the table's history: "Append", or "Overwrite" if the commit removes all earlier rows."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """For the table's history, too: where its epoch ends in the source (`userMetadata`)."""


def metadata_of(delta: DeltaTable, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The `metaData` action of a table for new columns, and changed properties."""
    metadata = delta.metadata()
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(pa.schema([f.with_nullable(True) for f in schema])).to_json(),
        "partitionColumns": [],
        "createdTime": metadata.created_time,
        "configuration": {**metadata.configuration, **(properties or {})},
    }


def protocol_of(delta: DeltaTable, features: Iterable[str]) -> dict[str, Any] | None:
    """The `protocol` action that adds table features; None if the table has them.

    Source: Delta transaction log protocol, "Table Features": from writer version 7 on, all features are listed, also
    those that version 2 implies.
    """
    protocol, wanted = delta.protocol(), set(features)
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if wanted <= readers & writers:
        return None
    implied = {"appendOnly", "invariants"} if protocol.min_writer_version == LEGACY_WRITER else set()
    listed = {"readerFeatures": readers | wanted, "writerFeatures": writers | implied | wanted}
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {**versions, **{name: sorted(features) for name, features in listed.items()}}


def needed_features(schema: pa.Schema) -> list[str]:
    """The Delta features that columns need: timestamps without a time zone."""
    needs = any(pa.types.is_timestamp(column.type) and column.type.tz is None for column in schema)
    return ["timestampNtz"] if needs else []


def as_number(value: Any) -> int | None:
    """A statistic as in `DataFile`: integers, and times in microseconds since 1970."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) if value.tzinfo else None
    return value if type(value) is int else None


def _bounds(values: Mapping[str, int], *, up: bool) -> dict[str, Any]:
    """Statistics as in Delta, where times have milliseconds."""
    bounds: dict[str, Any] = dict(values)
    if (time_us := values.get(TM_TS)) is not None:
        time = _EPOCH + timedelta(milliseconds=-(-time_us // 1000) if up else time_us // 1000)
        bounds[TM_TS] = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return bounds


def lines_of(actions: Actions) -> Iterator[dict[str, Any]]:
    """The lines of a commit's file."""
    now_ms = round(clock.unix_s() * 1000)
    info = {"timestamp": now_ms, "operation": actions.operation, "operationParameters": {"mode": actions.mode}}
    if actions.notes:
        info["userMetadata"] = json.dumps(dict(actions.notes))
    # `txnId` makes each commit's file unique, so that a writer recognises its own (`durable.link`).
    yield {"commitInfo": {**info, "engineInfo": f"Tidemark/{__version__}", "txnId": str(uuid.uuid4())}}
    for app, version in actions.transactions.items():
        yield {"txn": {"appId": app, "version": version, "lastUpdated": now_ms}}
    if actions.protocol is not None:
        yield {"protocol": dict(actions.protocol)}
    if actions.metadata is not None:
        yield {"metaData": dict(actions.metadata)}
    change = {"dataChange": actions.data_change, "partitionValues": {}}
    for file in actions.remove:
        vector = {} if (descriptor := vector_of(file)) is None else {"deletionVector": descriptor.to_json()}
        where = {"path": quote(file.name), "deletionTimestamp": now_ms, "extendedFileMetadata": True}
        yield {"remove": {**where, **change, "size": file.bytes, **vector}}
    for file in actions.add:
        ends = {"minValues": _bounds(file.low, up=False), "maxValues": _bounds(file.high, up=True)}
        nulls = {name: 0 for name in file.low if name != TM_TS}
        statistics: dict[str, Any] = {"numRecords": file.rows, **ends, "nullCount": nulls}
        vector = {} if (descriptor := vector_of(file)) is None else {"deletionVector": descriptor.to_json()}
        if vector:
            statistics["tightBounds"] = False
        where = {"path": quote(file.name), "size": file.bytes, "modificationTime": now_ms}
        yield {"add": {**where, **change, "stats": json.dumps(statistics), **vector}}


def vector_of(file: DataFile) -> Descriptor | None:
    """The file's deletion vector."""
    return file.vector if isinstance(file, StoredFile) else None
