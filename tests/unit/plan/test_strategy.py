"""Even plans: the published rules, and that the chunks cover every key exactly once."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.schema import Column, Table
from engine.errors import SpecError
from engine.plan.chunks import Range, chunk_of, plan_from_dict, predicate
from engine.plan.strategy import Extent, chunk_key, chunk_rows, distribution_factor, even_bounds, plan_integers
from engine.settings import Snapshot

TABLE = Table("shop", "orders", (Column("id", "bigint"), Column("v", "int")), ("id",))
keys = st.integers(-(2**63), 2**64 - 1) | st.integers(-50, 50)


@given(keys, st.integers(0, 5000), st.integers(1, 400), st.integers(1, 50), st.data())
def test_chunks_cover_every_key_exactly_once(low: int, span: int, rows: int, size: int, data: st.DataObject) -> None:
    """Keys inside the planned range and far outside it: one chunk each, found by arithmetic and by `chunk_of` alike."""
    plan = plan_integers(TABLE, "id", Extent(rows, low, low + span), Snapshot(chunk_rows=size), 100)
    ranges = [plan.range(n) for n in range(len(plan))]
    assert ranges[0].lower is None
    assert ranges[-1].upper is None
    assert list(plan.bounds) == sorted(set(plan.bounds))
    assert all(low < bound <= low + span for bound in plan.bounds)
    near = [bound + d for bound in plan.bounds[:20] for d in (-1, 0, 1)]
    probes = [*near, *data.draw(st.lists(st.integers(low - 9, low + span + 9), max_size=20))]
    column = pa.array([str(key) for key in probes], pa.string()).cast(pa.decimal128(21, 0))
    chunks = chunk_of(np.array(plan.bounds, dtype=object), column).tolist()
    for key, chunk in zip(probes, chunks, strict=True):
        assert [n for n, r in enumerate(ranges) if _inside(key, r)] == [chunk]


def _inside(key: int, limits: Range) -> bool:
    return (limits.lower is None or limits.lower <= key) and (limits.upper is None or key < limits.upper)


@given(st.sampled_from(["int8", "int16", "int32", "int64"]), st.data())
def test_a_key_of_any_width_finds_its_chunk(width: str, data: st.DataObject) -> None:
    """The ends of each integer type, with bounds at its ends; NULL is in chunk 0."""
    limits = np.iinfo(width)
    ends = st.sampled_from([int(limits.min), int(limits.max)]) | st.integers(int(limits.min), int(limits.max))
    bounds = sorted(data.draw(st.sets(ends, max_size=6)))
    values = data.draw(st.lists(st.none() | ends, max_size=12))
    column = pa.array(values, pa.from_numpy_dtype(np.dtype(width)))
    naive = [0 if value is None else sum(bound <= value for bound in bounds) for value in values]
    assert chunk_of(np.array(bounds, dtype=object), column).tolist() == naive


@pytest.mark.parametrize(
    ("extent", "size", "factor", "bounds"),
    [
        (Extent(100, 1, 100), 25, 1.0, (26, 51, 76)),
        (Extent(10, 1, 100), 3, 10.0, (31, 61, 91)),
        (Extent(100, 1, 10), 20, 0.1, (3, 5, 7, 9)),
        (Extent(3, 1, 10), 2, 3.3334, (7,)),
        (Extent(4, 2**64 - 5, 2**64 - 1), 2, 1.25, (2**64 - 3, 2**64 - 1)),
    ],
)
def test_published_examples(extent: Extent, size: int, factor: float, bounds: tuple[int, ...]) -> None:
    """Factor at four digits, rounded up; step max(int(factor · rows), 1); bounds min + step … ≤ max; both ends open."""
    plan = plan_integers(TABLE, "id", extent, Snapshot(chunk_rows=size), 0)
    assert (plan.factor, plan.bounds, plan.strategy) == (factor, bounds, "even")


@pytest.mark.parametrize(
    ("extent", "said"),
    [
        (Extent(0, None, None), "the table is empty"),
        (Extent(10, 1, 10), "about 10 rows fit one chunk of 10"),
        (Extent(11, 7, 7), "all rows have the same key"),
        (Extent(100, 1, 100_001), "the distribution factor 1000.01 is outside 0.05–1000"),
        (Extent(1000, 1, 49), "the distribution factor 0.049 is outside 0.05–1000"),
    ],
)
def test_what_is_not_cut_says_why(extent: Extent, said: str) -> None:
    """One chunk, open at both ends, with the reason."""
    plan = plan_integers(TABLE, "id", extent, Snapshot(chunk_rows=10), 0)
    assert (plan.strategy, plan.bounds, plan.reason) == ("one", (), f"one chunk: {said}")
    assert plan.range(0) == Range(None, None)


@pytest.mark.parametrize(("low", "high", "rows"), [(1, 100_000, 100), (1, 50, 1000)])
def test_the_bounds_of_the_factor_are_inside(low: int, high: int, rows: int) -> None:
    """A factor of exactly 1000 or 0.05 is cut."""
    assert plan_integers(TABLE, "id", Extent(rows, low, high), Snapshot(chunk_rows=10), 0).strategy == "even"


@given(st.integers(-(2**63), 2**63), st.integers(0, 2**64), st.integers(1, 10**12))
def test_the_factor_is_rounded_up(low: int, span: int, rows: int) -> None:
    """Never below the true quotient, and less than a ten-thousandth (and a float's grain) above."""
    factor = distribution_factor(low, low + span, rows)
    true = (span + 1) / rows
    assert true <= factor * (1 + 1e-15)
    assert factor <= (true + 0.0001) * (1 + 1e-15)
    assert math.isinf(distribution_factor(low, low + span, 0))


def test_a_step_is_at_least_one() -> None:
    """Dense keys with tiny chunks: every key is its own chunk."""
    assert list(even_bounds(1, 4, 0.05, 1)) == [2, 3, 4]


def test_a_plan_is_read_back_from_what_is_shown() -> None:
    """`plan_from_dict` is the inverse of `as_dict`; bounds are texts, null where open."""
    plan = plan_integers(TABLE, "id", Extent(100, 1, 100), Snapshot(chunk_rows=50), 0)
    shown = plan.as_dict()
    assert plan_from_dict(shown) == plan
    assert shown["chunks"] == [{"index": 0, "lower": None, "upper": "51"}, {"index": 1, "lower": "51", "upper": None}]
    assert (shown["min"], shown["max"], shown["distribution_factor"], shown["chunk_key"]) == ("1", "100", 1.0, ["id"])


@pytest.mark.parametrize(
    ("limits", "sql"),
    [
        (Range(None, 5), "(`a``b` < 5 OR `a``b` IS NULL)"),
        (Range(-5, 5), "`a``b` >= -5 AND `a``b` < 5"),
        (Range(5, None), "`a``b` >= 5"),
        (Range(None, None), ""),
    ],
)
def test_the_condition_of_a_range(limits: Range, sql: str) -> None:
    """NULL keys are read with the first chunk; names are quoted."""
    assert predicate("a`b", limits) == sql


@pytest.mark.parametrize(
    ("settings", "row_bytes", "rows"),
    [
        ({"chunk_rows": 7}, 100, 7),
        ({"target_bytes": 4096}, 100, 40),
        ({"target_bytes": 4096}, 10**6, 1),
        ({"target_bytes": 2**40}, 0, 5_000_000),
    ],
)
def test_rows_of_a_chunk(settings: dict[str, Any], row_bytes: int, rows: int) -> None:
    """As configured, else by size, at least one and never millions."""
    assert chunk_rows(Snapshot(**settings), row_bytes) == rows


def test_the_chunk_key_is_the_first_column_of_the_key() -> None:
    """A configured one must exist and be that column; without a key there is none."""
    assert chunk_key(TABLE, Snapshot()) == "id"
    assert chunk_key(TABLE, Snapshot(chunk_key={"shop.orders": "id"})) == "id"
    assert chunk_key(Table("d", "t", TABLE.columns, ()), Snapshot()) is None
    with pytest.raises(SpecError, match=r"'x', which shop\.orders does not have"):
        chunk_key(TABLE, Snapshot(chunk_key={"shop.orders": "x"}))
    with pytest.raises(SpecError, match="only by the first"):
        chunk_key(TABLE, Snapshot(chunk_key={"shop.orders": "v"}))
