"""Messages with schemas in a registry: what a reader of Avro, and of JSON, makes of them."""

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.capture.binlog.row_changes import log_schema
from engine.decode.schema import Column, Table
from engine.destination.kafka.avro_values import avro_type, nullable_records, varints
from engine.destination.kafka.message_formats import MadeMessages, MessageMaker
from engine.destination.kafka.registered_messages import RegisteredMessages, avro_name, envelope_deletion
from engine.destination.kafka.row_events import row_events, rows_read
from engine.destination.kafka.schema_registry import SchemaRegistry
from engine.spec.kafka_settings import KafkaSettings, MessageFormat
from engine.spec.registry_settings import RegistrySettings

TABLE = Table("shop", "or-ders", (Column("id", "int", nullable=False), Column("v 1", "varchar", length=9)), ("id",))
SCHEMA = pa.schema([("id", pa.int32()), ("v 1", pa.string())])
NOW_MS = 1_700_000_000_000
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


class Registry(ThreadingHTTPServer):
    """As Confluent's, in memory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[tuple[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_port}/api"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_POST(self) -> None:
        """Register a schema."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.schemas.append((self.path, json.loads(body["schema"])))
        self._answer({"id": len(self.server.schemas)})

    def do_GET(self) -> None:
        """A schema by its number."""
        number = int(self.path.rpartition("/")[2]) if "/ids/" in self.path else 0
        self._answer({"schema": json.dumps(self.server.schemas[number - 1][1])} if number else [])

    def _answer(self, content: Any) -> None:
        status = self.server.status
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content if status == 200 else {"message": "refused: secret"}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Registry]:
    """A registry."""
    with Registry() as running:
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()


def _maker(
    server: Registry, format_: MessageFormat, table: Table = TABLE, topic: str = "{database}.{table}"
) -> MessageMaker:
    settings = KafkaSettings(servers="b:9092", format=format_, topic=topic, registry=RegistrySettings(url=server.url))
    assert settings.registry is not None
    name = settings.topic_of(table.database, table.name)
    registered = RegisteredMessages(table, settings, "sink", SchemaRegistry(settings.registry), name)
    return MessageMaker(table, settings, "sink", registered)


def _changes(*rows: tuple[str, int, str | None]) -> pa.Table:
    facts = {"_tm_ts": AT, "_tm_position": "binlog.000007:1234", "_tm_tx": "uuid:9"}
    images = [{"_tm_kind": k, "id": n, "v 1": v, "_tm_seq": 10 + at, **facts} for at, (k, n, v) in enumerate(rows)]
    return pa.Table.from_pylist(images, schema=log_schema(SCHEMA))


def _sent(maker: MessageMaker, images: pa.Table) -> MadeMessages:
    return maker.messages(row_events(images, maker.keys(images)), NOW_MS)


def _avro(server: Registry, message: bytes | None) -> Any:
    """What a reader of Avro makes of it."""
    if message is None:
        return None
    magic, number = struct.unpack(">bI", message[:5])
    assert magic == 0
    body = io.BytesIO(message[5:])
    content = fastavro.schemaless_reader(body, fastavro.parse_schema(server.schemas[number - 1][1]), None)
    assert not body.read()
    return content


CHANGES = (("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, None), ("-D", 1, None))


def test_avro_has_rows_and_a_deletion_is_no_value(server: Registry) -> None:
    """Names that Avro does not accept are changed."""
    made = _sent(_maker(server, "avro"), _changes(*CHANGES))
    assert [_avro(server, one) for one in made.keys.to_pylist()] == [{"id": 1}] * 3
    rows = [_avro(server, one) for one in made.values.to_pylist()]
    assert rows == [{"id": 1, "v_1": "a"}, {"id": 1, "v_1": None}, None]
    subjects = [(path, schema["namespace"], schema["name"]) for path, schema in server.schemas]
    assert subjects == [
        ("/api/subjects/shop.or-ders-key/versions", "shop.or_ders", "Key"),
        ("/api/subjects/shop.or-ders-value/versions", "shop", "or_ders"),
    ]


def test_debezium_avro(server: Registry) -> None:
    """Before, after and where they come from; and the deletion of a row of an earlier copy."""
    made = _sent(_maker(server, "debezium-avro"), _changes(*CHANGES))
    created, updated, deleted = (_avro(server, one) for one in made.values.to_pylist())
    assert [one["op"] for one in (created, updated, deleted)] == ["c", "u", "d"]
    assert (created["before"], created["after"]) == (None, {"id": 1, "v_1": "a"})
    assert (updated["before"], updated["after"]) == ({"id": 1, "v_1": "a"}, {"id": 1, "v_1": None})
    assert (deleted["before"], deleted["after"]) == ({"id": 1, "v_1": None}, None)
    assert updated["source"] == {
        "version": "tidemark", "connector": "mysql", "name": "sink", "ts_ms": 1767323045678, "snapshot": "false",
        "db": "shop", "table": "or-ders", "gtid": "uuid:9", "file": "binlog.000007", "pos": 1234, "sequence": "12",
    }  # fmt: skip
    assert (updated["ts_ms"], updated["transaction"]) == (NOW_MS, {"id": "uuid:9"})
    maker = _maker(server, "debezium-avro")
    rows = pa.table({"id": pa.array([5], pa.int32()), "v 1": ["x"]})
    (read,) = maker.messages(rows_read(rows, maker.keys(rows)), NOW_MS).values.to_pylist()
    content = _avro(server, read)
    assert (content["op"], content["source"]["snapshot"], content["transaction"]) == ("r", "true", None)
    registry = SchemaRegistry(RegistrySettings(url=server.url))
    for message in (read, made.values[1].as_py()):
        before = _avro(server, message)["after"]
        gone = _avro(server, envelope_deletion(registry, message, 9))
        assert (gone["before"], gone["after"], gone["op"], gone["ts_ms"]) == (before, None, "d", 9)


def test_a_row_of_the_year_0_is_deleted(server: Registry) -> None:
    """Python has no such date."""
    table = Table("shop", "t", (TABLE.columns[0], Column("day", "date")), ("id",))
    maker = _maker(server, "debezium-avro", table)
    days = pa.array([-719528], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": pa.array([5], pa.int32()), "day": days})
    (read,) = maker.messages(rows_read(rows, maker.keys(rows)), NOW_MS).values.to_pylist()
    gone = envelope_deletion(SchemaRegistry(RegistrySettings(url=server.url)), read, 9)
    row = nullable_records(rows, ["id", "day"])[0].as_py()
    assert gone[5 : 7 + len(row)] == b"\x02" + row + b"\x00"


def test_json_schema(server: Registry) -> None:
    """JSON of the row, with the number of its schema in front."""
    made = _sent(_maker(server, "json-schema"), _changes(*CHANGES))
    assert [json.loads(one[5:]) for one in made.keys.to_pylist()] == [{"id": 1}] * 3
    rows = [None if one is None else json.loads(one[5:]) for one in made.values.to_pylist()]
    assert rows == [{"id": 1, "v 1": "a"}, {"id": 1, "v 1": None}, None]
    properties = server.schemas[1][1]["properties"]
    assert properties["id"]["oneOf"][1] == {"type": "integer", "connect.type": "int32"}


def test_every_type_of_a_lake(server: Registry) -> None:
    """Its extreme values, and NULL."""
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "b": (pa.bool_(), [True, False]),
        "i1": (pa.int8(), [-128, 127]),
        "i4": (pa.int32(), [-(2**31), 2**31 - 1, 0, -1, 63, 64, -64, -65, 8191, 8192]),
        "i8": (pa.int64(), [-(2**63), 2**63 - 1, 1 << 40]),
        "f4": (pa.float32(), [1.5, float("inf")]),
        "f8": (pa.float64(), [1.5e300, -0.0]),
        "d": (pa.decimal128(10, 2), [Decimal("-12.34"), Decimal("99999999.99"), Decimal("0.00")]),
        "d38": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)]),
        "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
        "at": (pa.timestamp("us"), [datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001
        "tz": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC)]),
        "s": (pa.string(), ["", "é😀" * 100]),
        "x": (pa.binary(), [b"", b"\x00\xff" * 70]),
        "l": (pa.list_(pa.float32()), [[], [1.5, -2.5]]),
    }
    count = max(len(values) for _, values in columns.values()) + 1
    padded = {name: [None, *values, *[None] * (count - 1 - len(values))] for name, (_, values) in columns.items()}
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    rows = pa.table(padded, schema=schema)
    fields = [{"name": one.name, "type": ["null", avro_type(one.type)]} for one in schema]
    parsed = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    for part in (rows, rows.slice(1), pa.concat_tables([rows, rows.slice(2)])):
        encoded = nullable_records(part, part.schema.names).to_pylist()
        found = [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in encoded]
        assert found == part.to_pylist()


def test_no_rows_have_no_messages(server: Registry) -> None:
    """Nothing is asked of the registry that has no columns to ask for."""
    assert len(varints(pa.array([], pa.int64()).to_numpy())) == 0
    made = _sent(_maker(server, "avro"), _changes())
    assert made.values.to_pylist() == []


def test_a_table_without_a_key_has_digests(server: Registry) -> None:
    """Equal rows have equal ones."""
    keyless = Table("shop", "logs", TABLE.columns, ())
    made = _sent(_maker(server, "avro", keyless), _changes(("+I", 1, "a"), ("+I", 1, "a"), ("+I", 2, "a")))
    digests = [_avro(server, one)["row_digest"] for one in made.keys.to_pylist()]
    assert digests[0] == digests[1] != digests[2]


def test_tables_of_one_topic_have_schemas_of_their_own(server: Registry) -> None:
    """Their subjects have their names."""
    _sent(_maker(server, "avro", topic="all"), _changes(*CHANGES))
    assert [path for path, _ in server.schemas] == [
        "/api/subjects/all-shop.or_ders-key/versions",
        "/api/subjects/all-shop.or_ders-value/versions",
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, StoreAccessError),
        (403, StoreAccessError),
        (409, DestinationError),
        (422, DestinationError),
        (404, DestinationError),
        (429, StoreAwayError),
        (500, StoreAwayError),
    ],
)
def test_what_a_registry_says_of_a_schema(server: Registry, status: int, error: type[Exception]) -> None:
    """An outage waits; a schema that is refused is its table's error."""
    server.status = status
    with pytest.raises(error, match="refused"):
        _sent(_maker(server, "avro"), _changes(*CHANGES))
    server.status = 200
    assert len(_sent(_maker(server, "avro"), _changes(*CHANGES)).keys) == 3


def test_a_registry_that_is_away() -> None:
    """Nobody listens there."""
    with pytest.raises(StoreAwayError, match="does not answer"):
        SchemaRegistry(RegistrySettings(url="http://127.0.0.1:9")).ask()


def test_names(server: Registry) -> None:
    """Two columns must not become one."""
    assert [avro_name(one) for one in ("a", "a b", "1a", "", "é")] == ["a", "a_b", "_1a", "_", "_"]
    both = Table("shop", "t", (*TABLE.columns, Column("v-1", "int")), ("id",))
    rows = pa.table({"id": pa.array([5], pa.int32()), "v 1": ["x"], "v-1": [1]})
    maker = _maker(server, "avro", both)
    with pytest.raises(DestinationError, match="would both be v_1"):
        maker.messages(rows_read(rows, maker.keys(rows)), NOW_MS)


@pytest.mark.parametrize("format_", ["avro", "json"])
def test_a_registry_belongs_to_formats_with_schemas(format_: MessageFormat) -> None:
    """And they need one."""
    registry = RegistrySettings(url="http://r:8081") if format_ == "json" else None
    with pytest.raises(ValueError, match="registry"):
        KafkaSettings(servers="b:9092", format=format_, registry=registry)


def test_a_table_called_as_a_record_is(server: Registry) -> None:
    """The envelope names the record of its rows twice."""
    for name in ("Value", "Key", "Envelope", "Source"):
        made = _sent(_maker(server, "debezium-avro", Table("shop", name, TABLE.columns, ("id",))), _changes(*CHANGES))
        assert [_avro(server, one)["op"] for one in made.values.to_pylist()] == ["c", "u", "d"]


def test_a_registry_that_has_lost_its_data_gets_the_schemas_again(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are asked for again after some minutes."""
    maker = _maker(server, "avro")
    _sent(maker, _changes(*CHANGES))
    server.schemas.clear()
    _sent(maker, _changes(*CHANGES))
    assert not server.schemas
    now_s = clock.monotonic_s()
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s + 301.0)
    assert [_avro(server, one) for one in _sent(maker, _changes(*CHANGES)).keys.to_pylist()] == [{"id": 1}] * 3


def test_a_number_of_another_schema_is_named(server: Registry) -> None:
    """A registry that was filled again may have one."""
    (key, *_) = _sent(_maker(server, "avro"), _changes(*CHANGES)).keys.to_pylist()
    registry = SchemaRegistry(RegistrySettings(url=server.url))
    with pytest.raises(DestinationError, match="A message of an earlier copy cannot be read"):
        envelope_deletion(registry, key, 9)
