"""Rows of the binary protocol decode to the encoded values; anything else raises an error of ours."""

import json
import random
from collections import Counter
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import DecodeError, TableStoppedError
from engine.decode.arrow_schema import arrow_schema
from engine.decode.result_rows import check_types, decode_rows
from engine.decode.schema import Column, Index, Table, table_from_dict
from engine.decode.types import TYPES, fault
from tests.support.depth import depth
from tests.unit.support.cells import lenenc, protocol_code
from tests.unit.support.values import LATIN1_CHARACTERS, MAKERS, expected, tables
from tests.unit.support.wire import TRAILER, laid_out, row_payload


def decoded(columns: tuple[Column, ...], payloads: list[bytes]) -> pa.RecordBatch:
    """The rows of a buffer that holds these payloads."""
    buffer, start, end = laid_out(payloads)
    batch = decode_rows(buffer, start, end, columns)
    buffer[:] = 0x55  # the buffer is used again: nothing may point into it
    batch.validate(full=True)
    return batch


def cells(columns: tuple[Column, ...], rows: list[list[Any]]) -> list[list[Any]]:
    """Rows as columns of expected values."""
    return [[expected(column, row[n]) for row in rows] for n, column in enumerate(columns)]


@given(st.data())
@settings(max_examples=depth(30, 600))
def test_rows_come_back_as_they_were_sent(data: st.DataObject) -> None:
    """Any columns, any values, NULLs anywhere."""
    table, row = data.draw(tables())
    rows = data.draw(st.lists(row, max_size=12))
    batch = decoded(table.columns, [row_payload(table.columns, values) for values in rows])
    assert [column.to_pylist() for column in batch.columns] == cells(table.columns, rows)
    assert batch.schema.types == arrow_schema(table).types


@pytest.mark.parametrize("number", range(len(MAKERS)))
def test_every_type_has_its_arrow_type_with_and_without_rows(number: int) -> None:
    """An empty block and a block of NULLs have the same type as one with values."""
    column = Column("c", **MAKERS[number][0])
    assert column.type in TYPES
    for count in (0, 3):
        batch = decoded((column,), [row_payload((column,), [None])] * count)
        assert batch.schema.types == arrow_schema(Table("d", "t", (column,), ())).types
        assert batch.columns[0].to_pylist() == [None] * count
    check_types([column], [protocol_code(column)])


def test_bounds_of_unsigned_numbers_and_decimals_are_exact() -> None:
    """2^64 - 1, 38 digits, 65 negative digits, and a decimal without integer digits."""
    columns = (
        Column("a", "bigint", unsigned=True),
        Column("b", "decimal", precision=38, scale=10),
        Column("c", "decimal", precision=65, scale=30),
        Column("d", "decimal", precision=4, scale=4),
    )
    wide = "-" + "9" * 35 + "." + "9" * 30
    values = [2**64 - 1, Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal(wide), Decimal("-0.0001")]
    (row,) = decoded(columns, [row_payload(columns, values)]).to_pylist()
    assert list(row.values()) == [Decimal(2**64 - 1), values[1], wide, values[3]]


def test_latin1_is_tested_with_its_undefined_bytes() -> None:
    """The naive model has 224 printable bytes, including the five that Windows-1252 leaves undefined."""
    assert len(LATIN1_CHARACTERS) == 224
    assert "\x81" in LATIN1_CHARACTERS


@given(st.data())
@settings(max_examples=depth(40, 1000))
def test_damaged_rows_are_refused_or_decoded_never_a_crash(data: st.DataObject) -> None:
    """A changed or missing byte gives an error of ours or a valid batch; no other exception, no endless loop."""
    table, row = data.draw(tables(most=5))
    payloads = [
        bytearray(row_payload(table.columns, values)) for values in data.draw(st.lists(row, min_size=1, max_size=4))
    ]
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(rng.randrange(1, 4)):
        victim = rng.randrange(len(payloads))
        if payloads[victim] and rng.random() < 0.6:
            at = rng.randrange(len(payloads[victim]))
            payloads[victim][at] = rng.choice([0, 1, 0x7F, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, rng.randrange(256)])
        else:
            del payloads[victim][rng.randrange(len(payloads[victim]) + 1) :]
    with suppress(DecodeError):
        decoded(table.columns, [bytes(p) for p in payloads])


@pytest.mark.parametrize("length", [2**63 - 1, 2**63, 2**64 - 1, 2**31, 2**62])
@pytest.mark.parametrize(
    "column",
    [
        Column("c", "text", charset="utf8mb4"),
        Column("c", "blob"),
        Column("c", "decimal", precision=10, scale=2),
        Column("c", "decimal", precision=38, scale=2),
    ],
    ids=lambda column: f"{column.type}-{column.precision}",
)
def test_a_length_of_eight_bytes_cannot_run_over(column: Column, length: int) -> None:
    """Cursor plus hostile length must not wrap around into the buffer."""
    with pytest.raises(DecodeError):
        decoded((column,), [b"\0\0" + lenenc(3) + b"1.0", b"\0\0" + b"\xfe" + length.to_bytes(8, "little") + b"abc"])


WRONG = ("", "-", ".12", "1.2", "1.234", "1e2", "1,20", "+1.20", " 1.20", "123456789.00", "-.10")
AS_A_NUMBER = (".12", "1.2", "1e2", "+1.20", "-.10")
"""What Arrow reads as the number that it is: beyond 18 digits, up to 38, the cast is Arrow's."""


@pytest.mark.parametrize(
    ("precision", "text"),
    [(5, t) for t in WRONG]
    + [(18, t) for t in WRONG if t != "123456789.00"]
    + [(38, t) for t in WRONG if t not in (*AS_A_NUMBER, "123456789.00")]
    + [(65, t) for t in WRONG if t != "123456789.00"],
)
def test_a_text_that_is_no_decimal_of_its_scale_is_refused(precision: int, text: str) -> None:
    """Only digits, a point and two digits, within the precision, are accepted."""
    column = Column("c", "decimal", precision=precision, scale=2)
    with pytest.raises(DecodeError):
        decoded((column,), [b"\0\0" + lenenc(len(text)) + text.encode()])


def test_a_zerofilled_decimal_is_read() -> None:
    """ZEROFILL pads with zeros up to the precision."""
    column = Column("c", "decimal", precision=5, scale=2)
    assert decoded((column,), [b"\0\0" + lenenc(6) + b"001.20"]).to_pylist() == [{"c": Decimal("1.20")}]
    wide = Column("c", "decimal", precision=40, scale=2)
    for sent, text in (("0" * 37 + "1.50", "1.50"), ("0" * 38 + ".00", "0.00"), ("-0.10", "-0.10")):
        assert decoded((wide,), [b"\0\0" + lenenc(len(sent)) + sent.encode()]).to_pylist() == [{"c": text}]


@pytest.mark.parametrize(
    ("kind", "sent", "said"),
    [
        ("date", b"\0", "0000-00-00"),
        ("date", b"\4\xea\7\2\x1f", "2026-02-31"),
        ("date", b"\4\xea\7\0\1", "2026-00-01"),
        ("datetime", b"\0", "0000-00-00"),
        ("timestamp", b"\0", "0000-00-00"),
        ("datetime", b"\7\xea\7\1\1\x19\0\0", "time of day"),
        ("date", b"\5\xea\7\1\1\0", "length"),
    ],
)
def test_a_date_that_does_not_exist_stops_the_table(kind: str, sent: bytes, said: str) -> None:
    """Zero dates and 31 February have no Arrow value and never become NULL."""
    with pytest.raises(DecodeError, match=said):
        decoded((Column("c", kind),), [b"\0\0" + sent])


def test_dates_that_do_not_exist_are_null_where_the_column_says_so() -> None:
    """They are counted; a NULL is not."""
    column = Column("c", "datetime", fraction=0, null_dates=True)
    buffer, start, end = laid_out([b"\0\0\0", b"\0\4", b"\0\0\4\xe8\7\2\x1e", b"\0\0\4\xe8\7\2\x1d"])
    nulled: Counter[str] = Counter()
    batch = decode_rows(buffer, start, end, (column,), nulled)
    assert batch.columns[0].to_pylist() == [None, None, None, datetime(2024, 2, 29)]  # noqa: DTZ001
    assert nulled == {"c": 2}


def test_text_that_is_not_utf8_stops_the_table() -> None:
    """The server promises utf8mb4."""
    with pytest.raises(DecodeError, match="character set"):
        decoded((Column("c", "varchar", charset="utf8mb4"),), [b"\0\0\2\xc3\x28"])


def test_an_unsupported_type_names_the_column() -> None:
    """A type or character set without a decoder is an error with the column's name, never a NULL."""
    assert fault(Column("where", "geography")) == "Column 'where': type GEOGRAPHY is not supported."
    assert "character set klingon" in str(fault(Column("c", "char", charset="klingon")))
    with pytest.raises(TableStoppedError, match="where"):
        decoded((Column("where", "geography"),), [])
    with pytest.raises(DecodeError, match="announced type 8"):
        check_types([Column("a", "int")], [8])


def test_a_table_survives_the_ledger() -> None:
    """`table_from_dict` inverts `as_dict`."""
    columns = tuple(Column(f"c{n}", **facts) for n, (facts, _) in enumerate(MAKERS))
    table = Table("d", "t", columns, ("c0", "c1"), indexes=(Index("PRIMARY", ("c0", "c1")), Index("x", ("c2",))))
    assert table_from_dict(json.loads(json.dumps(table.as_dict()))) == table


def test_bytes_behind_the_buffer_never_become_values() -> None:
    """The padding is 0xFF in these tests; a value truncated at the buffer's end is refused."""
    assert set(TRAILER) == {0xFF}
    buffer, start, end = laid_out([b"\0\0\1"])
    with pytest.raises(DecodeError):
        decode_rows(buffer, start, end, (Column("c", "int"),))
    assert np.array_equal(end, [7])
