"""The metadata file of an Iceberg table: its schemas, its snapshots and which of them is the newest.

Each commit writes it whole, so what it says of a snapshot is short, and written only once (`IcebergSnapshot.text`).

Source: Apache Iceberg table spec, "Table Metadata", "Snapshots", "Row Lineage".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from engine.base import clock
from engine.destination.iceberg.manifest_files import Format
from engine.destination.iceberg.schemas import IcebergColumn, IcebergSchema, name_mapping

VERSION = "tidemark.version"
"""The key of a summary that names the version of the table whose files the snapshot has."""
_OPERATION = "operation"
APPEND = "append"
"""The operation of a snapshot that only adds files."""
LEDGER = "tidemark.ledger"
"""The property that names the ledger that the table belongs to."""
NUMBER = "tidemark.metadata"
"""The property with the number of the metadata file. Another program repeats it in the files that it writes."""
TABLE = "tidemark.table"
"""The property that identifies the table whose files it has."""
_NAME_MAPPING = "schema.name-mapping.default"
PROPERTIES = {
    # The files belong to another table: engines then refuse to expire snapshots, and DROP … PURGE spares them.
    "gc.enabled": "false",
    "commit.retry.num-retries": "0",
    # A catalog writes metadata files of its own at each commit, and would keep them all.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


_SNAPSHOT_FIELDS = (
    "snapshot-id",
    "sequence-number",
    "timestamp-ms",
    "manifest-list",
    "schema-id",
    "summary",
    "parent-snapshot-id",
    "first-row-id",
    "added-rows",
)
"""Those of `IcebergSnapshot`, in its order."""


@dataclass(frozen=True)
class IcebergSnapshot:
    """A version of the table."""

    id: int
    sequence: int
    at_ms: int
    manifest_list: str
    schema: int
    summary: Mapping[str, str]
    parent: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None

    @cached_property
    def text(self) -> str:
        """Its JSON."""
        values = (getattr(self, one.name) for one in fields(self))
        pairs = zip(_SNAPSHOT_FIELDS, values, strict=True)
        content = {name: value for name, value in pairs if value is not None}
        return _json(content)

    @property
    def only_adds(self) -> bool:
        """Whether no row of the snapshot before is missing in it."""
        return self.summary.get(_OPERATION) == APPEND

    @property
    def version(self) -> int | None:
        """The version of the table whose files it has; None if another program committed it."""
        text = self.summary.get(VERSION, "")
        return int(text) if text.isdecimal() else None


class _MetadataPart(BaseModel):
    """Part of a metadata file, which another program may have written."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))


class _ColumnRecord(_MetadataPart):
    id: int
    name: str
    type: Any


class _SchemaRecord(_MetadataPart):
    schema_id: int = 0
    fields_: list[_ColumnRecord] = Field(alias="fields")

    def to_schema(self) -> IcebergSchema:
        columns = (IcebergColumn(one.id, one.name, str(one.type)) for one in self.fields_)
        return IcebergSchema(self.schema_id, tuple(columns))


class _SnapshotRecord(_MetadataPart):
    snapshot_id: int
    sequence_number: int = 0
    timestamp_ms: int
    manifest_list: str
    schema_id: int = 0
    summary: dict[str, str] = {}
    parent_snapshot_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None

    def to_snapshot(self) -> IcebergSnapshot:
        return IcebergSnapshot(
            self.snapshot_id,
            self.sequence_number,
            self.timestamp_ms,
            self.manifest_list,
            self.schema_id,
            self.summary,
            self.parent_snapshot_id,
            self.first_row_id,
            self.added_rows,
        )


class _LogRecord(_MetadataPart):
    snapshot_id: int


class _MetadataRecord(_MetadataPart):
    format_version: Format
    table_uuid: str
    location: str
    schemas: list[_SchemaRecord]
    current_schema_id: int = 0
    last_column_id: int
    properties: dict[str, str] = {}
    snapshots: list[_SnapshotRecord] = []
    snapshot_log: list[_LogRecord] = []
    current_snapshot_id: int | None = None
    last_sequence_number: int = 0
    next_row_id: int = 0
    last_updated_ms: int


@dataclass(frozen=True)
class TableMetadata:
    """The content of a metadata file."""

    format: Format
    uuid: str
    location: str
    schemas: Sequence[IcebergSchema]
    """Of the versions that can be read; the newest one last."""
    last_column_id: int
    sort_columns: Sequence[str]
    properties: Mapping[str, str]
    snapshots: Sequence[IcebergSnapshot] = ()
    """Oldest first."""
    last_sequence: int = 0
    next_row_id: int = 0
    updated_ms: int = field(default_factory=lambda: round(clock.unix_s() * 1000))

    @property
    def newest(self) -> IcebergSnapshot | None:
        """The newest snapshot; None before the first one."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def written_properties(self) -> Mapping[str, str]:
        """The properties in the file: also by which names readers find the columns of files."""
        return {**self.properties, _NAME_MAPPING: _json(name_mapping(self.schemas))}

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The inverse of `to_json`, of any writer's file. Raises ValueError."""
        record = _MetadataRecord.model_validate_json(text)
        return cls._from(record, [one.snapshot_id for one in record.snapshot_log])

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The metadata that a catalog has, whose log of snapshots may lack some. Raises ValueError."""
        content = _MetadataRecord.model_validate(record)
        by_sequence = sorted(content.snapshots, key=lambda one: one.sequence_number)
        return cls._from(content, [one.snapshot_id for one in by_sequence])

    @classmethod
    def _from(cls, record: _MetadataRecord, chain: Sequence[int]) -> Self:
        """chain: the identifiers of snapshots, oldest first; the current one comes last."""
        schemas = [one.to_schema() for one in record.schemas]
        snapshots = {one.snapshot_id: one.to_snapshot() for one in record.snapshots}
        newest, current = record.current_snapshot_id, record.current_schema_id
        ordered = [*(number for number in chain if number != newest), *(() if newest is None else (newest,))]
        return cls(
            record.format_version,
            record.table_uuid,
            record.location,
            [*(one for one in schemas if one.id != current), *(one for one in schemas if one.id == current)],
            record.last_column_id,
            (),
            record.properties,
            [snapshots[number] for number in ordered if number in snapshots],
            record.last_sequence_number,
            record.next_row_id,
            record.last_updated_ms,
        )

    def to_json(self) -> bytes:
        """The file."""
        schema, newest = self.schemas[-1], self.newest
        ids = {column.name: column.id for column in schema.columns}
        sort_fields = [
            {"transform": "identity", "source-id": ids[name], "direction": "asc", "null-order": "nulls-first"}
            for name in self.sort_columns
            if name in ids
        ]
        order = 1 if sort_fields else 0
        orders = [{"order-id": 0, "fields": []}, *([{"order-id": 1, "fields": sort_fields}] if sort_fields else [])]
        content: dict[str, Any] = {
            "format-version": self.format,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-sequence-number": self.last_sequence,
            "last-updated-ms": self.updated_ms,
            "last-column-id": self.last_column_id,
            "current-schema-id": schema.id,
            "schemas": [one.to_json() for one in self.schemas],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": order,
            "sort-orders": orders,
            "properties": self.written_properties,
            "metadata-log": [],
        }
        if self.format == 3:
            content["next-row-id"] = self.next_row_id
        if newest is not None:
            content["current-snapshot-id"] = newest.id
            content["refs"] = {"main": {"snapshot-id": newest.id, "type": "branch"}}
        snapshots = ",".join(one.text for one in self.snapshots)
        log = ",".join(f'{{"snapshot-id":{one.id},"timestamp-ms":{one.at_ms}}}' for one in self.snapshots)
        return f'{_json(content)[:-1]},"snapshots":[{snapshots}],"snapshot-log":[{log}]}}'.encode()


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
