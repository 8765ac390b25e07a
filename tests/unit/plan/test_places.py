"""The place of keys among bounds, compared with Python's own comparison."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.schema import Column
from engine.decode.types import value_type
from engine.plan import ordering
from engine.plan.chunks import Range
from engine.plan.keys import bound_at
from engine.plan.ordering import ServerOrder
from engine.plan.places import Signs, inside, place
from engine.source.connect import Endpoint
from tests.unit.plan.support import column, key_of, text


@dataclass(frozen=True)
class Kind:
    """A type: its column, Arrow values, the text of a value as a bound, and Python's order."""

    column: Column
    values: st.SearchStrategy[Any]
    text: Callable[[Any], str] = str
    order: Callable[[Any], Any] = lambda value: value


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    ends = st.integers(-(10**digits) + 1, 10**digits - 1) | st.integers(-3, 3)
    return ends.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


def _integers(bits: int, *, unsigned: bool = False) -> st.SearchStrategy[int]:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.sampled_from([low, low + 1, high - 1, high]) | st.integers(low, high) | st.integers(0, 4)


def _float32(value: float) -> float:
    return float(np.float32(value))


_moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - DATETIME has no zone
_floats = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.sampled_from(
    [0.0, -0.0, 0.1, 16777217.0, 1e-20]
)
_bytes = st.binary(max_size=3) | st.sampled_from([b"", b"\0", b"\0\0", b"a", b"a\0", b"\xff"])
KINDS = {
    "tinyint": Kind(column("k", "tinyint"), _integers(8)),
    "int": Kind(column("k", "int"), _integers(32)),
    "int unsigned": Kind(column("k", "int", unsigned=True), _integers(32, unsigned=True)),
    "bigint": Kind(column("k", "bigint"), _integers(64)),
    "bigint unsigned": Kind(column("k", "bigint", unsigned=True), _integers(64, unsigned=True)),
    "year": Kind(column("k", "year"), st.integers(1901, 2155)),
    "decimal": Kind(column("k", "decimal", precision=38, scale=10), _decimals(38, 10), "{:f}".format),
    "long decimal": Kind(column("k", "decimal", precision=60, scale=10), _decimals(60, 10), "{:f}".format, Decimal),
    "date": Kind(column("k", "date"), st.dates(date(1000, 1, 1))),
    "datetime": Kind(column("k", "datetime", fraction=6), _moments),
    "timestamp": Kind(
        column("k", "timestamp", fraction=6),
        st.datetimes(datetime(1970, 1, 1), datetime(2106, 2, 7)).map(lambda m: m.replace(tzinfo=UTC)),  # noqa: DTZ001
        lambda m: str(m.replace(tzinfo=None)),
    ),
    "binary": Kind(column("k", "varbinary", length=3), _bytes, lambda value: value.hex().upper()),
    "bit(1)": Kind(column("k", "bit", precision=1), st.booleans(), lambda value: str(int(value))),
    "bit(12)": Kind(
        column("k", "bit", precision=12),
        st.integers(0, 4095).map(lambda n: n.to_bytes(2, "big")),
        lambda value: str(int.from_bytes(value, "big")),
    ),
    "float": Kind(column("k", "float"), _floats.map(_float32)),
    "double": Kind(column("k", "double"), _floats | st.floats(allow_nan=False, allow_infinity=False)),
    "text": Kind(text("k"), st.text("aAáßZz'\\ ", max_size=3), order=str.casefold),
    "time": Kind(
        column("k", "time"),
        st.integers(-838, 838).map(lambda h: f"{'-' if h < 0 else ''}{abs(h):02}:30:00"),
        order=lambda t: timedelta(hours=int(t.split(":")[0].strip("-"))) * (-1 if t[0] == "-" else 1),
    ),
}


def asking(kind: Kind) -> Callable[[Column, Sequence[str], Sequence[str]], Signs]:
    """A server that compares in the kind's order; each value and bound is asked for once."""

    def ask(column: Column, values: Sequence[str], bounds: Sequence[str]) -> Signs:
        assert column.type == kind.column.type
        assert len(set(values)) == len(values)
        assert len(set(bounds)) == len(bounds)
        order = kind.order
        signs = [[(order(v) > order(b)) - (order(v) < order(b)) for b in bounds] for v in values]
        return np.array(signs, np.int8).reshape(len(values), len(bounds))

    return ask


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(data=st.data())
@settings(max_examples=30)
def test_a_key_is_placed_as_its_type_is_ordered(kind: Kind, data: st.DataObject) -> None:
    """By the number of bounds at or below it; NULL is below all of them."""
    values = data.draw(st.lists(st.none() | kind.values, max_size=12))
    pool = st.sampled_from([v for v in values if v is not None] or [data.draw(kind.values)]) | kind.values
    drawn = sorted(data.draw(st.lists(pool, max_size=4)), key=kind.order)
    bounds = [next(same) for _, same in groupby(drawn, kind.order)]
    keys = pa.table({"k": _column(kind.column, values, data)})
    placed = place(keys, [(kind.text(bound),) for bound in bounds], key_of(kind.column), asking(kind))
    order = kind.order
    assert placed.tolist() == [0 if v is None else sum(order(b) <= order(v) for b in bounds) for v in values]
    # A reader that stops early makes the bound of the row that it has read.
    rows = pa.table({"k": _column(kind.column, bounds, data)})
    read = [bound for n in range(len(bounds)) if (bound := bound_at(key_of(kind.column), rows, n)) is not None]
    assert len(read) == len(bounds)
    assert place(keys, read, key_of(kind.column), asking(kind)).tolist() == placed.tolist()


def _column(column: Column, values: list[Any], data: st.DataObject) -> pa.ChunkedArray:
    """Values in Arrow chunks of any length."""
    type_, at = value_type(column).arrow(column), data.draw(st.integers(0, len(values)))
    if pa.types.is_decimal(type_):
        values = [None if v is None else Decimal(v) for v in values]
    if pa.types.is_string(type_):
        values = [v if v is None or isinstance(v, str) else f"{v:f}" for v in values]
    return pa.chunked_array([pa.array(values[:at], type_), pa.array(values[at:], type_)])


_parts = st.tuples(st.integers(-2, 2), st.sampled_from("aAbB"), st.integers(0, 2))


@given(
    st.lists(_parts, max_size=15),
    st.sets(st.tuples(_parts, st.integers(1, 3)).map(lambda b: b[0][: b[1]]), max_size=6),
    st.sets(st.integers(0, 14)),
)
def test_a_composite_key_is_placed_row_by_row(
    values: list[tuple[int, str, int]], bounds: set[tuple[Any, ...]], null: set[int]
) -> None:
    """Bounds with any number of columns, in front of all keys that begin with them; the server orders a text column."""

    def order(key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.casefold() if isinstance(part, str) else part for part in key)

    ascending = [next(same) for _, same in groupby(sorted(bounds, key=order), order)]
    columns = (column("x", "int", nullable=True), text("y"), column("z", "int"))
    firsts = [None if n in null else value[0] for n, value in enumerate(values)]
    keys = pa.table(
        {
            "other": pa.nulls(len(values)),
            "z": pa.array([v[2] for v in values], pa.int32()),
            "y": pa.array([v[1] for v in values], pa.string()),
            "x": pa.array(firsts, pa.int32()),
        }
    )
    key, ask = key_of(*columns), asking(KINDS["text"])
    texts = [tuple(map(str, bound)) for bound in ascending]
    placed = place(keys, texts, key, ask).tolist()
    naive = [
        0 if first is None else sum(order(bound) <= order(value)[: len(bound)] for bound in ascending)
        for first, value in zip(firsts, values, strict=True)
    ]
    assert placed == naive
    for n, limits in enumerate(zip([None, *texts], [*texts, None], strict=True)):
        assert inside(keys, Range(*limits), key, ask).tolist() == [at == n for at in naive]


def test_the_server_is_asked_a_thousand_values_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through one connection, which is opened only if needed."""
    asked: list[int] = []
    opened: list[Endpoint] = []

    def query(_: object, statement: tuple[list[str], list[str]]) -> list[dict[str, Any]]:
        values, bounds = statement
        asked.append(len(values))
        rows = [{"i": i, "signs": "".join(str((v > b) + (v >= b)) for b in bounds)} for i, v in enumerate(values)]
        return rows[::-1]

    def opening(endpoint: Endpoint) -> object:
        opened.append(endpoint)
        return object()

    monkeypatch.setattr(ordering, "order_statement", lambda _, values, bounds: (values, bounds))
    monkeypatch.setattr(ordering, "query", query)
    monkeypatch.setattr(ordering, "open_connection", opening)
    order = ServerOrder(Endpoint("127.0.0.1", 1, "u", "p"))
    assert order(text(), [], ["a"]).shape == (0, 1)
    assert not opened
    values = [f"{n:05}" for n in range(2300)]
    signs = order(text(), values, ["00000", "01000", "99999"])
    assert [len(opened), asked] == [1, [1000, 1000, 300]]
    assert signs[[0, 999, 1000, 2299]].tolist() == [[0, -1, -1], [1, -1, -1], [1, 0, -1], [1, 1, -1]]
