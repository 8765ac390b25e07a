"""Comparing rows by identity agrees with a comparison of plain lists."""

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.verify.comparison import compare, unequal_columns
from engine.verify.settling import only

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int32()), ("w", pa.list_(pa.float32()))])
KEY = ("a", "b")
Row = tuple[int, str, int | None, list[float] | None]
VALUES = st.tuples(
    st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.lists(st.sampled_from([0.0, 1.5]), max_size=2))
)
KEYS = st.tuples(st.integers(0, 3), st.sampled_from(["x", "y"]))


def table(rows: list[Row]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def keys(rows: pa.Table) -> Counter[tuple[int, str]]:
    """The keys of a table."""
    return Counter((row["a"], row["b"]) for row in rows.to_pylist())


@given(st.dictionaries(KEYS, VALUES), st.lists(st.tuples(KEYS, VALUES)), st.randoms())
def test_it_finds_what_differs(source: dict[Any, Any], mirror: list[Any], chance: Any) -> None:
    """Missing, extra, different and repeated keys, in any order of the rows."""
    rows = [(*key, *values) for key, values in source.items()]
    chance.shuffle(rows)
    found = compare(table(rows), table([(*key, *values) for key, values in mirror]), KEY)
    copies = defaultdict[Any, list[Any]](list)
    for key, values in mirror:
        copies[key].append(values)
    assert keys(found.missing) == Counter(source.keys() - copies.keys())
    assert keys(found.extra) == Counter(copies.keys() - source.keys())
    assert keys(found.duplicate) == Counter(key for key, values in copies.items() if len(values) > 1)
    different = {key for key in source.keys() & copies.keys() if any(values != source[key] for values in copies[key])}
    assert keys(found.source) == keys(found.mirror) == Counter(different)
    assert found.equal == len(source.keys() & copies.keys()) - len(different)
    for row, other, columns in zip(
        found.source.to_pylist(), found.mirror.to_pylist(), unequal_columns(found.source, found.mirror), strict=True
    ):
        assert columns == [name for name in SCHEMA.names if row[name] != other[name]] != []
    chosen = only(found, table(rows[:2]).select(KEY))
    assert keys(chosen.missing) <= keys(table(rows[:2]))
    assert not keys(chosen.extra)


def test_no_rows() -> None:
    """Empty tables are equal."""
    assert not compare(table([]), table([]), KEY).total
