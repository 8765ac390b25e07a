"""Row images decode to the encoded values, in the binlog's order; anything else raises an error of ours."""

import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import DecodeError, SourceLostError, TableStoppedError
from engine.decode.binlog_events import Headers, read_headers, read_table_map
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT, Images, check_table_map, count_images, decode_images
from engine.decode.schema import Column, Table
from engine.decode.types.base import Mapped, slices
from tests.support.depth import depth
from tests.unit.support.cells import announced
from tests.unit.support.values import MAKERS, expected, tables
from tests.unit.support.wire import Binlog, laid_out, table_map

KINDS = {"insert": [INSERT], "delete": [DELETE], "update": [BEFORE, AFTER]}
Event = tuple[str, int, list[list[Any]]]


@st.composite
def events(draw: st.DrawFn, row: st.SearchStrategy[list[Any]], most: int = 8) -> list[Event]:
    """Row events: their kind, version and images, in order."""
    out = []
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        size = draw(st.integers(1, 4))
        images = draw(st.lists(row, min_size=size, max_size=size)) * len(KINDS[kind])
        out.append((kind, draw(st.sampled_from([1, 2])), images))
    return out


def log_of(table: Table, happened: list[Event]) -> Binlog:
    """A binlog with one table map and these row events, without checksums."""
    log = Binlog(checksum=False)
    log.add(19, table_map(table, 7))
    for kind, version, images in happened:
        log.rows(table, 7, kind, images, version=version)
    return log


def decoded(table: Table, payloads: list[bytes]) -> tuple[Images, Headers]:
    """The images of all events behind the first three packets (rotation, format description, table map)."""
    buffer, start, end = laid_out(payloads)
    headers = read_headers(buffer, start, end)
    chosen = pa.array(range(3, len(payloads)), pa.int64()).to_numpy()
    mapped = read_table_map(bytes(buffer[headers.body[2] : headers.end[2]]), mariadb=False)
    check_table_map(table, mapped)
    images = decode_images(buffer, headers, chosen, table, mapped)
    buffer[:] = 0x55
    for column in images.rows:
        column.validate(full=True)
    return images, headers


@given(st.data())
@settings(max_examples=depth(30, 600))
def test_images_come_back_in_the_order_of_the_binlog(data: st.DataObject) -> None:
    """Single- and multi-row inserts, updates and deletes of both versions, mixed.

    Every image with its event and kind.
    """
    table, row = data.draw(tables(most=6))
    happened = data.draw(events(row))
    images, _ = decoded(table, log_of(table, happened).payloads)
    flat = [
        (3 + number, place, KINDS[kind][place % len(KINDS[kind])], values)
        for number, (kind, _, rows) in enumerate(happened)
        for place, values in enumerate(rows)
    ]
    assert images.event.tolist() == [event for event, _, _, _ in flat]
    assert images.place.tolist() == [place for _, place, _, _ in flat]
    assert images.kind.tolist() == [kind for _, _, kind, _ in flat]
    for n, column in enumerate(table.columns):
        assert images.rows[n].to_pylist() == [expected(column, values[n]) for _, _, _, values in flat]


@given(st.data())
@settings(max_examples=depth(30, 600))
def test_columns_that_are_passed_over_change_no_others(data: st.DataObject) -> None:
    """With any columns marked as unread, these are NULL and the others do not change."""
    table, row = data.draw(tables(most=6))
    payloads = log_of(table, data.draw(events(row))).payloads
    unread = data.draw(st.lists(st.booleans(), min_size=len(table.columns), max_size=len(table.columns)))
    columns = tuple(replace(c, unread=some) for c, some in zip(table.columns, unread, strict=True))
    whole, _ = decoded(table, payloads)
    images, _ = decoded(replace(table, columns=columns), payloads)
    for passed_over, one, other in zip(unread, images.rows, whole.rows, strict=True):
        assert one.null_count == len(one) == len(other) if passed_over else one.equals(other)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 250, 251, 300])
def test_any_number_of_columns(count: int) -> None:
    """The column count takes three bytes from 251 on; bitmaps end within a byte or with it."""
    table = Table("d", "t", tuple(Column(f"c{n}", "tinyint") for n in range(count)), ("c0",))
    values = [[None if (n + r) % 3 == 0 else n % 100 for n in range(count)] for r in range(4)]
    images, _ = decoded(table, log_of(table, [("update", 2, values), ("insert", 1, values)]).payloads)
    assert [column.to_pylist() for column in images.rows] == [
        list(column) for column in zip(*values, *values, strict=False)
    ]


def test_bounds_in_images_are_exact() -> None:
    """The values that other decoders get wrong."""
    table = Table(
        "d",
        "t",
        (
            Column("a", "bigint", unsigned=True),
            Column("b", "decimal", precision=38, scale=10),
            Column("c", "decimal", precision=65, scale=30),
            Column("d", "binary", length=8),
            Column("e", "varchar", length=20, charset="latin1"),
            Column("f", "timestamp", fraction=6),
        ),
        ("a",),
    )
    wide = "-" + "9" * 35 + "." + "9" * 30
    last = datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)
    row = [2**64 - 1, Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal(wide), b"a\0b\0\0\0\0\0", "\x81€Ÿ\x9d", last]
    images, _ = decoded(table, log_of(table, [("insert", 2, [row])]).payloads)
    assert [c.to_pylist() for c in images.rows] == [[Decimal(2**64 - 1)], [row[1]], [wide], [row[3]], [row[4]], [last]]


@given(st.data())
@settings(max_examples=depth(40, 1000))
def test_damaged_images_are_refused_or_decoded_never_a_crash(data: st.DataObject) -> None:
    """A changed byte in a row event or its table map gives an error of ours or valid arrays."""
    table, row = data.draw(tables(most=4))
    payloads = [bytearray(p) for p in log_of(table, data.draw(events(row, most=3))).payloads]
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(rng.randrange(1, 4)):
        victim = rng.randrange(2, len(payloads))
        at = rng.randrange(20, len(payloads[victim]))
        if rng.random() < 0.7:
            payloads[victim][at] = rng.choice([0, 1, 0x7F, 0xFA, 0xFB, 0xFE, 0xFF, rng.randrange(256)])
        elif at > 21:
            del payloads[victim][at:]
            payloads[victim][10:14] = (len(payloads[victim]) - 1).to_bytes(4, "little")
    with suppress(TableStoppedError, SourceLostError):
        decoded(table, [bytes(p) for p in payloads])


@pytest.mark.parametrize("number", range(len(MAKERS)))
def test_a_table_map_announces_what_the_column_is(number: int) -> None:
    """Each type's own metadata is accepted; another type's, and another column's digits, are not."""
    column = Column("c", **MAKERS[number][0])
    table = Table("d", "t", (column,), ("c",))
    check_table_map(table, read_table_map(table_map(table, 1), mariadb=False))
    check_table_map(table, read_table_map(table_map(table, 1, names=False), mariadb=False))
    others = {announced(Column("c", **facts)) for facts, _ in MAKERS} - {announced(column)}
    for code, metadata in others:
        other = table_map(table, 1, names=False).replace(
            bytes([*_short(announced(column))]), bytes([*_short((code, metadata))])
        )
        mapped = read_table_map(other, mariadb=False)
        assert mapped.columns == (Mapped(code, metadata),)
        if code == announced(column)[0] and (
            code in (15, 252) or (column.type in ("char", "binary") and metadata[0] | 48 == 254)
        ):
            check_table_map(table, mapped)
        else:
            with pytest.raises(TableStoppedError, match="other columns"):
                check_table_map(table, mapped)


def _short(described: tuple[int, bytes]) -> bytes:
    code, metadata = described
    return bytes([1, code, len(metadata)]) + metadata + b"\xff"


def test_a_renamed_column_is_recognised_where_the_binlog_has_names() -> None:
    """With binlog_row_metadata=FULL, a different name stops the table."""
    table = Table("d", "t", (Column("a", "int"),), ("a",))
    other = Table("d", "t", (Column("b", "int"),), ("b",))
    with pytest.raises(TableStoppedError, match=r"Captured: b\. In the binlog: 1 columns \(a\)"):
        check_table_map(other, read_table_map(table_map(table, 1), mariadb=False))
    check_table_map(other, read_table_map(table_map(table, 1, names=False), mariadb=False))


def test_an_image_that_lacks_columns_stops_the_table() -> None:
    """binlog_row_image=MINIMAL in a session: missing values are not guessed."""
    table = Table("d", "t", (Column("a", "int"), Column("b", "int")), ("a",))
    payloads = log_of(table, [("insert", 2, [[1, 2]])]).payloads
    lacking = bytearray(payloads[3])
    lacking[1 + 19 + 8 + 2 + 1] = 0b01
    with pytest.raises(TableStoppedError, match="lacks columns"):
        decoded(table, [*payloads[:3], bytes(lacking)])


@pytest.mark.parametrize("kind", ["enum", "set"])
def test_labels_that_the_catalog_cannot_show_stop_the_table(kind: str) -> None:
    """Without labels in the table map and with a "?" in the catalog, the label is unknown."""
    table = Table("d", "t", (Column("a", kind, labels=("?", "b"), charset="utf8mb4"),), ("a",))
    log = Binlog(checksum=False)
    log.add(19, table_map(table, 5, names=False))
    log.rows(table, 5, "insert", [["b"]])
    with pytest.raises(DecodeError, match="may not show its labels"):
        decoded(table, log.payloads)
    narrow = Table("d", "t", (Column("a", kind, labels=("?", "b"), charset="latin1"),), ("a",))
    images, _ = decoded(narrow, log.payloads)
    assert images.rows[0].to_pylist() == ["b"]


def test_the_first_second_of_1970_is_no_zero_date() -> None:
    """MariaDB stores fractions of it."""
    table = Table("d", "t", (Column("a", "timestamp", fraction=6, null_dates=True),), ("a",))
    first = datetime(1970, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)
    images, _ = decoded(table, log_of(table, [("insert", 2, [[first]])]).payloads)
    assert images.rows[0].to_pylist() == [first]


def test_an_update_without_after_image_is_refused() -> None:
    """Its images are not a pair."""
    table = Table("d", "t", (Column("a", "int"),), ("a",))
    with pytest.raises(DecodeError, match="no after-image"):
        decoded(table, log_of(table, [("update", 2, [[1]])]).payloads)


@given(st.data())
@settings(max_examples=depth(10, 100))
def test_events_of_many_images_and_of_one(data: st.DataObject) -> None:
    """Bulk and single-row events side by side: every image is found."""
    table, row = data.draw(tables(most=12))
    happened = []
    for size in (40, 1, 0, 7, 2):
        for kind, pair in KINDS.items():
            images = [data.draw(row) for _ in range(3)] * (size * len(pair))
            happened += [(kind, 2, images)] if images else []
    found, _ = decoded(table, log_of(table, happened).payloads)
    for n, column in enumerate(table.columns):
        assert found.rows[n].to_pylist() == [expected(column, values[n]) for _, _, rows in happened for values in rows]


def test_the_decoders_do_not_believe_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two images are taken for one, the columns end too early."""
    table = Table("d", "t", (Column("a", "int"),), ("a",))
    monkeypatch.setattr("engine.decode.images.ends", lambda records, *_: records.end)
    with pytest.raises(DecodeError, match="another length"):
        decoded(table, log_of(table, [("insert", 2, [[1], [2]])]).payloads)


def test_a_row_event_with_another_number_of_columns_is_refused() -> None:
    """Its bitmaps would be decoded as values."""
    table = Table("d", "t", (Column("a", "int"), Column("b", "int")), ("a",))
    payloads = log_of(table, [("insert", 2, [[1, 2]])]).payloads
    wrong = bytearray(payloads[3])
    wrong[1 + 19 + 8 + 2] = 9
    with pytest.raises(DecodeError, match="another number of columns"):
        decoded(table, [*payloads[:3], bytes(wrong)])


def test_values_need_not_lie_in_the_buffers_order() -> None:
    """Decompressed content lies behind events that came later."""
    buffer = np.frombuffer(b"onetwothree" + bytes(64), np.uint8)
    start, end, null = np.array([6, 3, 3, 0]), np.array([11, 6, 3, 3]), np.array([False, False, True, False])
    assert slices(buffer, start, end, null, pa.string()).to_pylist() == ["three", "two", None, "one"]
    assert slices(buffer, start[::-1], end[::-1], None, pa.binary()).to_pylist() == [b"one", b"", b"two", b"three"]


@given(st.data())
@settings(max_examples=depth(30, 600))
def test_images_are_counted_without_decoding_them(data: st.DataObject) -> None:
    """The counts per event are those of the decoded images."""
    table, row = data.draw(tables(most=6))
    happened = data.draw(events(row))
    payloads = log_of(table, happened).payloads
    buffer, start, end = laid_out(payloads)
    headers = read_headers(buffer, start, end)
    mapped = read_table_map(bytes(buffer[headers.body[2] : headers.end[2]]), mariadb=False)
    counts = count_images(buffer, headers, np.arange(3, len(payloads)), table, mapped)
    assert counts.tolist() == [len(rows) for _, _, rows in happened]
