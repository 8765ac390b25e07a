"""Rows as messages: each format, each type, pairs of images, keys."""

import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.capture.binlog.row_changes import log_schema
from engine.decode.schema import Column, Table
from engine.destination.kafka.json_values import json_objects
from engine.destination.kafka.message_formats import MessageMaker
from engine.destination.kafka.row_events import complete_rows, row_events, rows_read
from engine.spec.kafka_settings import REGISTERED, KafkaSettings, MessageFormat

TABLE = Table("shop", "orders", (Column("id", "int", nullable=False), Column("v", "varchar", length=9)), ("id",))
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
NOW_MS = 1_700_000_000_000
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def changes(*rows: tuple[str, int, str | None]) -> pa.Table:
    """Images of one transaction, in order."""
    facts = {"_tm_ts": AT, "_tm_position": "binlog.000007:1234", "_tm_tx": "uuid:9"}
    images = [{"_tm_kind": k, "id": n, "v": v, "_tm_seq": 10 + at, **facts} for at, (k, n, v) in enumerate(rows)]
    return pa.Table.from_pylist(images, schema=log_schema(SCHEMA))


def sent(format_: MessageFormat, images: pa.Table, table: Table = TABLE, **more: Any) -> list[tuple[str, Any]]:
    """Keys and parsed values."""
    maker = MessageMaker(table, KafkaSettings(servers="b:9092", format=format_, **more), "shop")
    found = maker.messages(row_events(images, maker.keys(images)), NOW_MS)
    values = [None if one is None else json.loads(one) for one in found.values.to_pylist()]
    return list(zip([key.decode() for key in found.keys.to_pylist()], values, strict=True))


def test_changelog_json_has_a_message_for_each_image() -> None:
    """As Flink's changelog-json prints them; an update of the key is a deletion and an insert."""
    images = changes(
        ("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"), ("-U", 2, None), ("+U", 3, None)
    )  # fmt: skip
    assert sent("changelog-json", images) == [
        ('{"id":1}', {"data": {"id": 1, "v": "a"}, "op": "+I"}),
        ('{"id":1}', {"data": {"id": 1, "v": "a"}, "op": "-U"}),
        ('{"id":1}', {"data": {"id": 1, "v": "b"}, "op": "+U"}),
        ('{"id":1}', {"data": {"id": 1, "v": "b"}, "op": "-D"}),
        ('{"id":2}', {"data": {"id": 2, "v": None}, "op": "-D"}),
        ('{"id":3}', {"data": {"id": 3, "v": None}, "op": "+I"}),
    ]


def test_debezium_json() -> None:
    """Before, after, where in the binlog, and which transaction."""
    (insert, update, delete) = sent(
        "debezium-json", changes(("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"))
    )
    source = {
        "version": "tidemark", "connector": "mysql", "name": "shop", "db": "shop", "table": "orders",
        "snapshot": "false", "ts_ms": 1767323045678, "gtid": "uuid:9", "file": "binlog.000007", "pos": 1234, "row": 0,
    }  # fmt: skip
    transaction = {"id": "uuid:9"}
    assert insert[1] == {
        "before": None, "after": {"id": 1, "v": "a"}, "source": {**source, "sequence": 10}, "op": "c",
        "ts_ms": NOW_MS, "transaction": transaction,
    }  # fmt: skip
    assert (update[1]["before"], update[1]["after"], update[1]["op"]) == ({"id": 1, "v": "a"}, {"id": 1, "v": "b"}, "u")
    assert (delete[1]["before"], delete[1]["after"], delete[1]["op"]) == ({"id": 1, "v": "b"}, None, "d")


def test_canal_and_maxwell() -> None:
    """The row is `data`, that before an update `old`."""
    images = changes(("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"))
    update, delete = (value for _, value in sent("canal-json", images))
    assert update == {
        "data": [{"id": 1, "v": "b"}], "old": [{"id": 1, "v": "a"}], "database": "shop", "table": "orders",
        "pkNames": ["id"], "type": "UPDATE", "isDdl": False, "es": 1767323045678, "ts": NOW_MS,
    }  # fmt: skip
    assert (delete["type"], delete["data"], delete["old"]) == ("DELETE", [{"id": 1, "v": "b"}], None)
    update, delete = (value for _, value in sent("maxwell-json", images))
    assert update == {
        "database": "shop", "table": "orders", "type": "update", "ts": 1767323045,
        "data": {"id": 1, "v": "b"}, "old": {"id": 1, "v": "a"},
    }  # fmt: skip
    assert (delete["type"], delete["data"], "old" in delete) == ("delete", {"id": 1, "v": "b"}, False)


def test_plain_rows_are_upserts_and_messages_without_a_value() -> None:
    """By key, as compacted topics want them."""
    images = changes(("+I", 1, "a"), ("-U", 1, "a"), ("+U", 2, "a"), ("-D", 2, "a"))
    assert sent("json", images) == [
        ('{"id":1}', {"id": 1, "v": "a"}), ('{"id":1}', None), ('{"id":2}', {"id": 2, "v": "a"}), ('{"id":2}', None)
    ]  # fmt: skip


@pytest.mark.parametrize("format_", ["debezium-json", "changelog-json", "canal-json", "maxwell-json", "json"])
def test_rows_of_a_snapshot(format_: MessageFormat) -> None:
    """They are reads, or inserts where a format has no reads."""
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", None]})
    maker = MessageMaker(TABLE, KafkaSettings(servers="b:9092", format=format_), "shop")
    found = maker.messages(rows_read(rows, maker.keys(rows)), NOW_MS)
    values = [json.loads(one) for one in found.values.to_pylist()]
    words = {"debezium-json": "r", "changelog-json": "+I", "canal-json": "INSERT", "maxwell-json": "insert"}
    assert {one.get("op") or one.get("type") for one in values} == {words.get(format_)}
    assert found.keys.to_pylist() == [b'{"id":1}', b'{"id":2}']
    assert not found.is_deletion.any()


def test_a_table_without_a_key_has_equal_keys_for_equal_rows() -> None:
    """So all messages of equal rows are in one partition."""
    bare = Table("shop", "orders", TABLE.columns, ())
    keys = [key for key, _ in sent("debezium-json", changes(("+I", 1, "a"), ("+I", 2, "a"), ("-D", 1, "a")), bare)]
    assert keys[0] == keys[2] != keys[1]
    assert all(len(key) == 32 for key in keys)


def test_changes_without_a_time_are_valid_in_every_format() -> None:
    """Corrections of a redump, and the rows of a table without a key, have no commit time."""
    images = changes(("+I", 1, "a")).set_column(3, "_tm_ts", pa.nulls(1, pa.timestamp("us", "UTC")))
    assert images.schema.names[3] == "_tm_ts"
    for format_ in {*get_args(MessageFormat)} - {*REGISTERED}:
        assert len(sent(format_, images)) == 1


def test_headers_of_halves_say_what_they_are() -> None:
    """Also in changelog-json, which has a message for each image."""
    images = changes(("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"))
    maker = MessageMaker(TABLE, KafkaSettings(servers="b:9092", format="changelog-json"), "shop")
    found = maker.messages(row_events(images, maker.keys(images)), NOW_MS)
    assert found.kinds.to_pylist() == ["-U", "+U", "-D"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"topic": "all", "compaction": True}, "need a topic for each table"),
        ({"topic": "all", "tombstones": True}, "need a topic for each table"),
        ({"format": "changelog-json", "compaction": True}, "would keep a -U without its"),
        ({"user": "u"}, "has no login"),
        ({"security": "sasl_ssl"}, "needs user"),
        ({"ca": "ca.pem"}, "has no TLS"),
        ({"security": "ssl", "key": "k.pem"}, "belong together"),
        ({"servers": "broker"}, "is not of the form"),
        ({"topic": "a b"}, "is no rule for topics"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, Any], why: str) -> None:
    """With the reason."""
    with pytest.raises(ValidationError, match=re.escape(why)):
        KafkaSettings.model_validate({"servers": "b:9092"} | more)


def test_an_update_is_never_torn() -> None:
    """The first half of one waits for the second."""
    assert complete_rows(changes(("+I", 1, "a"), ("-U", 1, "a"))) == 1
    assert complete_rows(changes(("-U", 1, "a"), ("+U", 1, "b"))) == 2
    assert complete_rows(changes()) == 0


def test_values_are_exact() -> None:
    """Decimals are texts, and no value is NULL but NULL."""
    rows = pa.table(
        {
            "int": pa.array([2**63 - 1, None], pa.int64()),
            "decimal": pa.array([Decimal("-0.0000000001"), Decimal(10) ** 20], pa.decimal128(38, 10)),
            "double": pa.array([0.1, 1e300]),
            "float": pa.array([0.1, None], pa.float32()),
            "bool": [True, None],
            "binary": [b"\x00\xff", None],
            "date": [date(1, 1, 1), None],
            "datetime": pa.array([datetime(2026, 1, 31, 12, 30, 0, 500000, UTC), None], pa.timestamp("us")),
            "timestamp": pa.array([datetime(2026, 1, 31, 12, 30, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "vector": pa.array([[1.5, math.nan], None], pa.list_(pa.float32())),
        }
    )
    first, second = map(json.loads, json_objects(rows, rows.column_names, iso=False).to_pylist())
    assert first == {
        "int": 2**63 - 1, "decimal": "-0.0000000001", "double": 0.1, "float": 0.1, "bool": True, "binary": "AP8=",
        "date": "0001-01-01", "datetime": "2026-01-31 12:30:00.5", "timestamp": "2026-01-31 12:30:00Z",
        "vector": [1.5, "nan"],
    }  # fmt: skip
    assert [second[name] for name in ("int", "float", "bool", "binary", "date", "vector")] == [None] * 6
    assert second["decimal"] == "100000000000000000000.0000000000"
    iso = json.loads(json_objects(rows, ["timestamp"], iso=True)[0].as_py())
    assert iso == {"timestamp": "2026-01-31T12:30:00Z"}


@given(st.lists(st.one_of(st.none(), st.text()), min_size=1), st.text(min_size=1))
def test_any_text_and_any_name_is_valid_json(values: list[str | None], name: str) -> None:
    """Quotes, backslashes, control characters, and whatever else Unicode has."""
    rows = pa.table({name: pa.array(values, pa.string())})
    found = [json.loads(one) for one in json_objects(rows, [name], iso=False).to_pylist()]
    assert found == [{name: value} for value in values]
