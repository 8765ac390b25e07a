"""Messages with a schema in a registry: Avro of rows, Avro of Debezium's envelope, and JSON of rows.

Each key and value begins with the number of its schema. The schema is that of the columns that the rows have, so a
column that a table gets is in the schema from its first row on.

Source: Debezium, "Change event values"; Apache Avro specification, "Schema Declaration"; JSON Schema, draft 7.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from engine.base.errors import DestinationError
from engine.decode.schema import TM_SEQ, TM_TS, TM_TX, Table
from engine.destination.kafka.avro_values import (
    avro_type,
    constant,
    joined,
    nullable_records,
    or_null,
    records,
    values,
)
from engine.destination.kafka.json_values import json_objects
from engine.destination.kafka.row_events import NONE, RowEvents
from engine.destination.kafka.schema_registry import PREFIX_BYTES, SchemaRegistry, SchemaType
from engine.spec.kafka_settings import KafkaSettings

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NULL, _THERE = b"\x00", b"\x02"
"""The branches of a union with null."""
_DIGEST = "row_digest"
_SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": "string"},
        {"name": "db", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "gtid", "type": ["null", "string"], "default": None},
        {"name": "file", "type": ["null", "string"], "default": None},
        {"name": "pos", "type": ["null", "long"], "default": None},
        {"name": "sequence", "type": ["null", "string"], "default": None},
    ],
}
_TRANSACTION = {"type": "record", "name": "block", "namespace": "event", "fields": [{"name": "id", "type": "string"}]}


class _FieldSchema(BaseModel):
    name: str
    type: Any


class _RecordSchema(BaseModel):
    fields_: list[_FieldSchema] = Field(alias="fields")


@dataclass(frozen=True)
class EnvelopeFacts:
    """Columns of the envelope, over the events: texts, and integers."""

    op: pa.ChunkedArray
    file: pa.ChunkedArray
    position: pa.ChunkedArray


class RegisteredMessages:
    """The keys and values of one table's messages.

    name: of the sink. topic: the table's.
    """

    def __init__(self, table: Table, settings: KafkaSettings, name: str, registry: SchemaRegistry, topic: str) -> None:
        self._table = table
        self._settings = settings
        self._name = name
        self._registry = registry
        self._topic = topic
        self._iso = settings.timestamps == "iso"
        self._namespace = avro_name(table.database)
        self._is_json = settings.format == "json-schema"

    def keys(self, events: RowEvents, digests: pa.ChunkedArray) -> pa.ChunkedArray:
        """The keys of events. digests: of the rows, as bytes, for a table without a key."""
        rows = events.images.take(pa.array(events.last))
        names = list(self._table.key)
        if not names:
            rows, names = pa.table({_DIGEST: digests.cast(pa.string())}), [_DIGEST]
        if self._is_json:
            return self._framed("key", self._json_schema(rows, names), json_objects(rows, names, iso=self._iso))
        keys = records(rows, names)
        if keys.null_count:
            raise DestinationError(
                f"A row of {self._table.full_name} has NULL in its key.",
                detail="The table stops before this epoch; the others continue.",
                hint='Choose a format without a registry, such as "debezium-json".',
            )
        fields = [
            {"name": name, "type": avro_type(rows[column].type)} for name, column in self._avro_names(names).items()
        ]
        return self._framed("key", _record(self._record_namespace, "Key", fields), keys)

    def values(
        self, events: RowEvents, columns: Sequence[str], facts: pa.Table, envelope: EnvelopeFacts, now_ms: int
    ) -> pa.ChunkedArray:
        """The values of events. columns: of the rows. facts: the images of the events. now_ms: the time."""
        if self._is_json:
            rows = json_objects(events.images, columns, iso=self._iso)
            return self._framed("value", self._json_schema(events.images, columns), _taken(rows, events.after))
        rows = nullable_records(events.images, columns)
        row = self._row_schema(events.images, columns)
        if self._settings.format == "avro":
            schema = _record(self._namespace, avro_name(self._table.name), row)
            return self._framed("value", schema, _taken(rows, events.after))
        value = _record(self._record_namespace, "Value", row)
        body = joined(
            len(events),
            [
                or_null(_taken(rows, events.before)),
                or_null(_taken(rows, events.after)),
                self._source(events, facts, envelope),
                values(envelope.op),
                _THERE + constant(now_ms),
                _NULL if events.is_snapshot else or_null(values(facts[TM_TX].cast(pa.string()))),
            ],
        )
        return self._framed("value", self._envelope_schema(value), body)

    def _source(self, events: RowEvents, facts: pa.Table, envelope: EnvelopeFacts) -> pa.ChunkedArray:
        before = b"".join(map(constant, ("tidemark", "mysql", self._name)))
        place = (str(events.is_snapshot).lower(), self._table.database, self._table.name)
        after = b"".join(map(constant, place))
        if events.is_snapshot:
            return joined(len(events), [before, constant(0), after, *[_NULL] * 4])
        at_ms = pc.fill_null(pc.divide(facts[TM_TS].cast(pa.int64()), 1000), 0)
        own = (
            facts[TM_TX].cast(pa.string()),
            envelope.file,
            envelope.position.cast(pa.int64()),
            facts[TM_SEQ].cast(pa.string()),
        )
        return joined(len(events), [before, values(at_ms), after, *(or_null(values(one)) for one in own)])

    def _row_schema(self, rows: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {"name": name, "type": ["null", avro_type(rows[column].type)], "default": None}
            for name, column in self._avro_names(columns).items()
        ]

    def _avro_names(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns by names that Avro accepts, in order. Raises DestinationError if two become one."""
        names = dict[str, str]()
        for column in columns:
            name = avro_name(column)
            other = names.setdefault(name, column)
            if other != column:
                raise DestinationError(
                    f"The columns {other} and {column} of {self._table.full_name} would both be {name} in Avro.",
                    detail="The table stops before this epoch; the others continue.",
                    hint='Exclude one of them, or choose a format without Avro, such as "json-schema".',
                )
        return names

    @property
    def _record_namespace(self) -> str:
        return f"{self._namespace}.{avro_name(self._table.name)}"

    def _envelope_schema(self, value: dict[str, Any]) -> dict[str, Any]:
        again = f"{self._record_namespace}.Value"
        fields: list[dict[str, Any]] = [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", again], "default": None},
            {"name": "source", "type": _SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
            {"name": "transaction", "type": ["null", _TRANSACTION], "default": None},
        ]
        return _record(self._record_namespace, "Envelope", fields)

    def _json_schema(self, rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
        properties = {name: {"oneOf": [{"type": "null"}, _json_type(rows[name].type)]} for name in columns}
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": self._table.full_name,
            "type": "object",
            "properties": properties,
        }

    def _framed(self, part: str, schema: Any, bodies: pa.ChunkedArray) -> pa.ChunkedArray:
        """The bodies, each with the number of the schema in front; NULL stays NULL."""
        kind: SchemaType = "JSON" if self._is_json else "AVRO"
        subject = f"{self._topic}-{part}"
        if self._settings.has_one_topic:  # the tables of a topic have schemas of their own
            subject = f"{self._topic}-{self._record_namespace}-{part}"
        prefix = self._registry.prefix(subject, schema, kind)
        return joined(len(bodies), [prefix, bodies.cast(pa.binary())])


def _record(namespace: str, name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def avro_name(text: str) -> str:
    """The nearest name that Avro accepts."""
    name = _NOT_IN_NAMES.sub("_", text)
    return name if name and not name[0].isdigit() else f"_{name}"


def envelope_deletion(registry: SchemaRegistry, message: bytes, now_ms: int) -> bytes:
    """The message in Avro that deletes the row of another message. now_ms: milliseconds since 1970."""
    body = io.BytesIO(message[PREFIX_BYTES:])
    ends = [body.tell()]
    try:
        for kind in _envelope_types(registry.schema_of(message)):
            fastavro.schemaless_reader(body, fastavro.parse_schema(kind), None)
            ends.append(body.tell())
    except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
        raise DestinationError(
            f"A message of an earlier copy cannot be read: {error!r}.",
            detail="So nobody can say which rows the new copy lacks: the registry has another schema of its number.",
            hint="Give the table a topic of its own: another rule in sink.kafka.topic. Then resnapshot it: "
            "tidemark redump SPEC --table …",
        ) from error
    content = body.getvalue()
    row, origin = content[ends[1] : ends[2]], content[ends[2] : ends[3]]
    return message[:PREFIX_BYTES] + row + _NULL + origin + constant("d") + _THERE + constant(now_ms) + _NULL


def _plain(schema: Any) -> Any:
    """A schema without logical types: Python has no date of the year 0, which MySQL has."""
    if isinstance(schema, dict):
        return {key: _plain(one) for key, one in schema.items() if key != "logicalType"}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


def _envelope_types(schema: Any) -> list[Any]:
    """The types of the row before, the row after and the source. Raises ValueError for another schema."""
    before, after, source, *_ = _RecordSchema.model_validate(schema).fields_
    if (before.name, after.name, source.name) != ("before", "after", "source"):
        raise ValueError("its schema is another one")
    return [_plain(one.type) for one in (before, before, source)]  # the row after has the type of the row before


def _taken(rows: pa.ChunkedArray, indexes: Any) -> pa.ChunkedArray:
    return rows.take(pa.array(indexes, mask=indexes == NONE))


def _json_type(kind: pa.DataType) -> dict[str, Any]:
    """What `json_values` writes. `connect.type` is what Kafka Connect makes of it."""
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer", "connect.type": f"int{kind.bit_width}"}
    if pa.types.is_floating(kind):
        return {"type": "number", "connect.type": f"float{kind.bit_width}"}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"type": "string", "connect.type": "bytes"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": {"type": ["number", "string"]}}
    return {"type": "string"}
