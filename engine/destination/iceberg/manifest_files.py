"""Manifests, which list data files or deletes, and manifest lists, which list the manifests of a snapshot.

Both are Avro files. We write the fields that we know and leave out optional ones; readers find fields by identifier.

Source: Apache Iceberg table spec, "Manifests", "Snapshots" (manifest lists), "Row Lineage".
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Literal

import fastavro

from engine.destination.iceberg.schemas import IcebergSchema

EXISTING, ADDED, DELETED = 0, 1, 2
"""The status of an entry."""
DATA, DELETES = 0, 1
"""The content of a manifest."""
PUFFIN = "PUFFIN"
POSITION_DELETES = 1
"""The content of a file that a manifest of deletes lists."""
Format = Literal[2, 3]
"""Of the table: the version of Iceberg's spec."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A data file, a file of deletes or a deletion vector."""

    path: str
    """Its URI."""
    rows: int
    size: int
    """Bytes."""
    low: Mapping[int, bytes] = field(default_factory=dict)
    """The smallest value by column, as Iceberg serializes it."""
    high: Mapping[int, bytes] = field(default_factory=dict)
    format: str = "PARQUET"
    content: int = DATA
    first_row_id: int | None = None
    referenced: str | None = None
    """The data file that a vector is for."""
    offset: int | None = None
    length: int | None = None

    @property
    def name(self) -> str:
        """By which changes call it: its URI, or of a vector that of the data file."""
        return self.referenced if self.referenced and self.format == PUFFIN else self.path


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest."""

    status: int
    snapshot: int
    """Which added it, or, if its status is DELETED, deleted it."""
    sequence: int | None
    """When it was added; None in the manifest of the snapshot that added it, which has the number."""
    file: FileRecord

    @property
    def is_live(self) -> bool:
        """Whether the snapshots with this manifest have the file."""
        return self.status != DELETED


@dataclass(frozen=True)
class ManifestFile:
    """A manifest as a list has it."""

    path: str
    size: int
    """Bytes."""
    content: int
    sequence: int
    least_sequence: int
    snapshot: int
    """Which added the manifest."""
    added_files: int
    existing_files: int
    deleted_files: int
    added_rows: int
    existing_rows: int
    deleted_rows: int
    first_row_id: int | None = None
    """Of the rows of files that have none of their own; in version 3."""

    @property
    def live_files(self) -> int:
        """Files that are not deleted."""
        return self.added_files + self.existing_files


_ENTRY_FIELDS = ("status", "snapshot_id", "sequence_number", "data_file")
_FILE_FIELDS = (
    "file_path",
    "record_count",
    "file_size_in_bytes",
    "lower_bounds",
    "upper_bounds",
    "file_format",
    "content",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
"""Those of `FileRecord`, in its order."""
_LIST_FIELDS = (
    "manifest_path",
    "manifest_length",
    "content",
    "sequence_number",
    "min_sequence_number",
    "added_snapshot_id",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "first_row_id",
)
"""Those of `ManifestFile`, in its order."""


def _map(key: int, value: int) -> list[Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key},
        {"name": "value", "type": "bytes", "field-id": value},
    ]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return ["null", {"type": "array", "logicalType": "map", "items": items}]


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional and not isinstance(kind, list):
        kind = ["null", kind]
    default = {"default": None} if isinstance(kind, list) else {}
    return {"name": name, "type": kind, **default, "field-id": number}


def _entry_schema(version: Format) -> dict[str, Any]:
    fields = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _field(125, "lower_bounds", _map(126, 127)),
        _field(128, "upper_bounds", _map(129, 130)),
        _field(143, "referenced_data_file", "string", optional=True),
    ]
    if version == 3:
        fields += [
            _field(142, "first_row_id", "long", optional=True),
            _field(144, "content_offset", "long", optional=True),
            _field(145, "content_size_in_bytes", "long", optional=True),
        ]
    entry = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=True),
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": fields}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def _list_schema(version: Format) -> dict[str, Any]:
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
    ]
    if version == 3:
        fields.append(_field(520, "first_row_id", "long", optional=True))
    return {"type": "record", "name": "manifest_file", "fields": fields}


_ENTRIES = {version: fastavro.parse_schema(_entry_schema(version)) for version in (2, 3)}
_LISTS = {version: fastavro.parse_schema(_list_schema(version)) for version in (2, 3)}


def manifest_content(version: Format, content: int, schema: IcebergSchema, entries: Iterable[ManifestEntry]) -> bytes:
    """The file of a manifest."""
    metadata = {
        "schema": json.dumps(schema.to_json()),
        "schema-id": str(schema.id),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": "data" if content == DATA else "deletes",
    }
    return _avro(_ENTRIES[version], (_entry_record(entry) for entry in entries), metadata)


def manifest_of(
    path: str, size: int, content: int, sequence: int, snapshot: int, entries: Sequence[ManifestEntry]
) -> ManifestFile:
    """A manifest of these entries, for a list. sequence: of the snapshot, which adds it."""
    files, rows = [0, 0, 0], [0, 0, 0]
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.file.rows
    sequences = (sequence if one.sequence is None else one.sequence for one in entries if one.is_live)
    least = min(sequences, default=sequence)
    return ManifestFile(
        path,
        size,
        content,
        sequence,
        least,
        snapshot,
        added_files=files[ADDED],
        existing_files=files[EXISTING],
        deleted_files=files[DELETED],
        added_rows=rows[ADDED],
        existing_rows=rows[EXISTING],
        deleted_rows=rows[DELETED],
    )


def entries_of(content: bytes, manifest: ManifestFile) -> list[ManifestEntry]:
    """The entries of a manifest that are not deleted, with the numbers that they take from it."""
    entries, row_id = list[ManifestEntry](), manifest.first_row_id
    for record in fastavro.reader(io.BytesIO(content)):
        entry = _entry(record)
        if not entry.is_live:
            continue
        if manifest.content == DATA and row_id is not None and entry.file.first_row_id is None:
            entry = replace(entry, file=replace(entry.file, first_row_id=row_id))
            row_id += entry.file.rows
        entries.append(replace(entry, sequence=manifest.sequence if entry.sequence is None else entry.sequence))
    return entries


def list_content(
    version: Format,
    snapshot: int,
    parent: int | None,
    sequence: int,
    first_row_id: int,
    manifests: Iterable[ManifestFile],
) -> bytes:
    """The file of a manifest list."""
    metadata = {
        "snapshot-id": str(snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": str(version),
    }
    if version == 3:
        metadata["first-row-id"] = str(first_row_id)
    return _avro(_LISTS[version], (_list_record(one) for one in manifests), metadata)


def manifests_of(content: bytes) -> list[ManifestFile]:
    """The manifests of a list."""
    return [_manifest(record) for record in fastavro.reader(io.BytesIO(content))]


def _avro(schema: Any, records: Iterable[dict[str, Any]], metadata: Mapping[str, str]) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec="deflate", metadata=dict(metadata))
    return target.getvalue()


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    one = entry.file
    low, high = _pairs(one.low), _pairs(one.high)
    values = (one.path, one.rows, one.size, low, high, one.format, one.content, one.first_row_id, one.referenced)
    fields = zip(_FILE_FIELDS, (*values, one.offset, one.length), strict=True)
    return {
        "status": entry.status,
        "snapshot_id": entry.snapshot,
        "sequence_number": entry.sequence,
        "file_sequence_number": entry.sequence,
        "data_file": {"partition": {}, **dict(fields)},
    }


def _pairs(bounds: Mapping[int, bytes]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in bounds.items()] or None


def _bounds(pairs: Sequence[Mapping[str, Any]] | None) -> dict[int, bytes]:
    return dict(tuple(pair.values()) for pair in pairs or ())


def _entry(record: Any) -> ManifestEntry:
    status, snapshot, sequence, data = (record.get(name) for name in _ENTRY_FIELDS)
    path, rows, size, low, high, *others = (data.get(name) for name in _FILE_FIELDS)
    return ManifestEntry(status, snapshot, sequence, FileRecord(path, rows, size, _bounds(low), _bounds(high), *others))


def _list_record(one: ManifestFile) -> dict[str, Any]:
    return {"partition_spec_id": 0, **dict(zip(_LIST_FIELDS, astuple(one), strict=True))}


def _manifest(record: Any) -> ManifestFile:
    return ManifestFile(*(record.get(name) for name in _LIST_FIELDS))
