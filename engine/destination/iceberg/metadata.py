"""The metadata file of an Iceberg table: its schemas, its snapshots and which of them is the newest.

Each commit writes it whole, so what it says of a snapshot is short, and written only once (`Snapshot.text`).

Source: Apache Iceberg table spec, "Table Metadata", "Snapshots", "Row Lineage".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from engine.base import clock
from engine.destination.iceberg.manifests import Format
from engine.destination.iceberg.schemas import Schema, name_mapping

VERSION = "tidemark.version"
"""The key of a summary that names the version of the table whose files the snapshot has."""
LEDGER = "tidemark.ledger"
"""The property that names the ledger that the table belongs to."""
TABLE = "tidemark.table"
"""The property that identifies the table whose files it has."""
_NAME_MAPPING = "schema.name-mapping.default"
PROPERTIES = {
    # The files belong to another table: engines then refuse to expire snapshots, and DROP … PURGE spares them.
    "gc.enabled": "false",
    "commit.retry.num-retries": "0",
}


@dataclass(frozen=True)
class Snapshot:
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

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `text`."""
        return cls(
            content["snapshot-id"],
            content["sequence-number"],
            content["timestamp-ms"],
            content["manifest-list"],
            content["schema-id"],
            content["summary"],
            content.get("parent-snapshot-id"),
            content.get("first-row-id"),
            content.get("added-rows"),
        )

    @cached_property
    def text(self) -> str:
        """Its JSON."""
        optional = {
            "parent-snapshot-id": self.parent,
            "first-row-id": self.first_row_id,
            "added-rows": self.added_rows,
        }
        content = {
            "snapshot-id": self.id,
            "sequence-number": self.sequence,
            "timestamp-ms": self.at_ms,
            "manifest-list": self.manifest_list,
            "schema-id": self.schema,
            "summary": dict(self.summary),
            **{name: value for name, value in optional.items() if value is not None},
        }
        return _json(content)

    @property
    def version(self) -> int | None:
        """The version of the table whose files it has; None if another program committed it."""
        text = self.summary.get(VERSION, "")
        return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class TableMetadata:
    """The content of a metadata file."""

    format: Format
    uuid: str
    location: str
    schemas: Sequence[Schema]
    """Of the versions that can be read; the newest one last."""
    last_column_id: int
    sort_columns: Sequence[str]
    properties: Mapping[str, str]
    snapshots: Sequence[Snapshot] = ()
    """Oldest first."""
    last_sequence: int = 0
    next_row_id: int = 0
    updated_ms: int = field(default_factory=lambda: round(clock.unix_s() * 1000))

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot; None before the first one."""
        return self.snapshots[-1] if self.snapshots else None

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The inverse of `to_json`, of any writer's file. Raises ValueError, KeyError or TypeError."""
        content = json.loads(text)
        current, newest = content.get("current-schema-id", 0), content.get("current-snapshot-id")
        schemas = [Schema.from_json(one) for one in content["schemas"]]
        snapshots = {one["snapshot-id"]: one for one in content.get("snapshots") or ()}
        order = [entry["snapshot-id"] for entry in content.get("snapshot-log") or ()]
        chain = [number for number in order if number in snapshots and number != newest]
        if newest in snapshots:
            chain.append(newest)
        return cls(
            content["format-version"],
            content["table-uuid"],
            content["location"],
            [*(one for one in schemas if one.id != current), *(one for one in schemas if one.id == current)],
            content["last-column-id"],
            (),
            content.get("properties") or {},
            [Snapshot.from_json(snapshots[number]) for number in chain],
            content.get("last-sequence-number", 0),
            content.get("next-row-id", 0),
            content["last-updated-ms"],
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
            "properties": {**self.properties, _NAME_MAPPING: _json(name_mapping(self.schemas))},
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
