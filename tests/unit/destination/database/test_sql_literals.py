"""Columns as texts of SQL."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.destination.database.sql_literals import batches_of, hexadecimal, lines, number_lists, plain, quoted


def column(*values: object, type_: pa.DataType | None = None, cut: int = 0) -> pa.ChunkedArray:
    """A column in two chunks, the second one a slice."""
    whole = pa.array(values, type_)
    return pa.chunked_array([whole.slice(0, cut), whole.slice(cut)])


@given(st.lists(st.none() | st.binary(max_size=12), max_size=9), st.integers(0, 9))
def test_bytes_are_their_digits(values: list[bytes | None], cut: int) -> None:
    """Of each chunk, wherever it begins."""
    found = hexadecimal(column(*values, type_=pa.binary(), cut=min(cut, len(values))))
    assert found.to_pylist() == [None if one is None else one.hex() for one in values]


@given(st.lists(st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-9, max_value=9)))
def test_a_decimal_has_no_exponent(values: list[Decimal | None]) -> None:
    """MySQL would take it for a float, and round it."""
    found = plain(column(*values, type_=pa.decimal128(30, 20))).to_pylist()
    assert not any("E" in one for one in found if one is not None)
    assert [one if one is None else Decimal(one) for one in found] == values


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back_as_it_was(value: float) -> None:
    """Minus zero, too."""
    assert repr(float(plain(column(value)).to_pylist()[0])) == repr(value)


@pytest.mark.parametrize("mark", ["'", '"'])
def test_a_mark_is_doubled(mark: str) -> None:
    """And nothing else is an escape."""
    assert quoted(column(f"a{mark}b", None, "\\", ""), mark).to_pylist() == [
        f"{mark}a{mark}{mark}b{mark}", None, f"{mark}\\{mark}", mark * 2,
    ]  # fmt: skip


def test_rows_are_made_of_columns() -> None:
    """NULL has a word of its own, which no text is."""
    columns = [column("1", None), column("'NULL'", "'b'")]
    assert lines(columns, "NULL", "(", ")").to_pylist() == ["(1,'NULL')", "(NULL,'b')"]
    assert number_lists(column([1.5, -2.0], None, []), "{", "}").to_pylist() == ["{1.5,-2.0}", None, "{}"]


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 7))
def test_batches_have_all_rows_in_order(lengths: list[int], most: int) -> None:
    """A row that is larger than a batch has one of its own."""
    rows = ["x" * length for length in lengths]
    found = [batch.split(",") for batch in batches_of(pa.chunked_array([pa.array(rows, pa.string())]), ",", most, 50)]
    assert [row for batch in found for row in batch] == rows
    assert all(0 < len(batch) <= most and (len(batch) == 1 or len(",".join(batch)) <= 50) for batch in found)
