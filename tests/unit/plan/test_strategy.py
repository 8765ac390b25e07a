"""How a table is split: the documented rules by example, and the reasons in the plan."""

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.schema import Index, Table
from engine.plan.chunks import Plan
from engine.plan.strategy import KeyEnds, chunk_rows, decide, distribution_factor
from engine.source.catalog import Statistics
from engine.spec.settings import Snapshot, TableRules
from tests.unit.plan.support import column, table, text

ID = column("id", "bigint")
TABLE = table(ID, column("v", "int"), key=["id"])


def plan(rows: int, low: object, high: object, of: Table = TABLE, **settings: Any) -> Plan:
    """The plan of a table with that many rows between two keys, in chunks of ten rows by default."""
    ends = KeyEnds(None if low is None else str(low), None if high is None else str(high))
    return decide(of, Statistics(rows, 100, rows * 100), ends, Snapshot(**{"chunk_rows": 10, **settings}))


def bounds(of: Plan) -> list[str]:
    """The bounds of an even plan."""
    assert of.strategy == "even"
    ranges = list(of.even_ranges())
    assert ranges[0].lower is None
    assert ranges[-1].upper is None
    assert [r.upper for r in ranges[:-1]] == [r.lower for r in ranges[1:]]
    return [r.lower[0] for r in ranges[1:] if r.lower is not None]


@pytest.mark.parametrize(
    ("rows", "low", "high", "size", "factor", "expected"),
    [
        (100, 1, 100, 25, 1.0, [26, 51, 76]),
        (10, 1, 100, 3, 10.0, [31, 61, 91]),
        (100, 1, 10, 20, 0.1, [3, 5, 7, 9]),
        (3, 1, 10, 2, 3.3334, [7]),
        (20, 1, 20, 1, 1.0, list(range(2, 21))),
        (100, -50, 49, 25, 1.0, [-25, 0, 25]),
        (4, 2**64 - 5, 2**64 - 1, 2, 1.25, [2**64 - 3, 2**64 - 1]),
        (4, 2**63 - 4, 2**63 - 1, 2, 1.0, [2**63 - 2]),
        (4, -(2**63), -(2**63) + 3, 2, 1.0, [-(2**63) + 2]),
    ],
)
def test_published_examples(rows: int, low: int, high: int, size: int, factor: float, expected: list[int]) -> None:
    """Factor at four digits, rounded up; step max(int(factor · rows), 1); bounds min + step … ≤ max; both ends open."""
    made = plan(rows, low, high, chunk_rows=size)
    assert (made.factor, bounds(made), made.estimated_chunks) == (factor, [*map(str, expected)], len(expected) + 1)


@pytest.mark.parametrize(
    ("low", "high", "rows", "size", "expected"),
    [
        ("1.50", "4.75", 4, 1, ["2.50", "3.50", "4.50"]),
        ("-0.0000001", "3.0", 4, 1, ["0.9999999", "1.9999999", "2.9999999"]),
        ("0.0000000000", "3.5000000000", 4, 1, ["1.0000000000", "2.0000000000", "3.0000000000"]),
        ("1" + "0" * 39 + ".01", "1" + "0" * 38 + "4.01", 4, 2, ["1" + "0" * 38 + "2.01", "1" + "0" * 38 + "4.01"]),
    ],
)
def test_decimal_keys_are_split_evenly(low: str, high: str, rows: int, size: int, expected: list[str]) -> None:
    """With the key's own scale, in plain digits, exactly, for any number of digits."""
    of = table(column("id", "decimal", precision=42, scale=2), key=["id"])
    made = plan(rows, low, high, of, chunk_rows=size)
    assert bounds(made) == expected


@pytest.mark.parametrize(
    ("rows", "low", "high", "of", "why"),
    [
        (0, None, None, TABLE, "the table is empty"),
        (10, 1, 10, TABLE, "about 10 rows fit one chunk of 10"),
        (11, 7, 7, TABLE, "all rows have the same key"),
        (
            11,
            None,
            None,
            table(ID),
            "no primary key and no unique key without nullable columns, so it is published to its change log only",
        ),
        (11, 1, 9, table(ID, key=["id"], indexes=[]), "no index reads ranges of its key"),
        (
            11,
            "a",
            "b",
            table(column("e", "enum"), ID, key=["e", "id"]),
            "its key begins with e, and no range of an index on ENUM can be read",
        ),
        (
            11,
            "a",
            "b",
            table(text("s", charset="sjis"), key=["s"]),
            "its key begins with s, and in the character set sjis one character has several codes",
        ),
    ],
)
def test_what_is_one_chunk_says_why(rows: int, low: object, high: object, of: Table, why: str) -> None:
    """Both ends are open, and the plan has the reason."""
    made = plan(rows, low, high, of)
    assert (made.strategy, made.reason, made.estimated_chunks) == ("one", f"one chunk: {why}", 1)
    assert (made.even_range(0).lower, made.even_range(0).upper) == (None, None)


@pytest.mark.parametrize(
    ("rows", "low", "high", "of", "why", "factor"),
    [
        (100, 1, 100_001, TABLE, ": the distribution factor 1000.01 is outside 0.05–1000", 1000.01),
        (1000, 1, 49, TABLE, ": the distribution factor 0.049 is outside 0.05–1000", 0.049),
        (0, 1, 49, TABLE, ": no statistics of its rows", None),
        (100, "a", "b", table(text(), key=["s"]), ": the key s is VARCHAR, which the server walks", None),
        (
            100,
            "2020-01-01",
            "2021-01-01",
            table(column("d", "date"), ID, key=["d", "id"]),
            ", by d, id: the key d is DATE, which the server walks",
            None,
        ),
        (1000, 7, 7, table(ID, column("b", "int"), key=["id", "b"]),
         ", by id, b: the distribution factor 0.001 is outside 0.05–1000", 0.001),
    ],
)  # fmt: skip
def test_what_is_walked_says_why(rows: int, low: object, high: object, of: Table, why: str, factor: float) -> None:
    """With the columns, if there are several, and the expected number of chunks."""
    made = plan(rows, low, high, of)
    assert (made.strategy, made.reason) == ("uneven", f"walked{why}, 10 rows a chunk")
    assert (made.factor, made.estimated_chunks) == (factor, max(-(-rows // 10), 1))


@pytest.mark.parametrize(("low", "high", "rows"), [(1, 100_000, 100), (1, 50, 1000)])
def test_the_bounds_of_the_factor_are_inside(low: int, high: int, rows: int) -> None:
    """A factor of exactly 1000 or 0.05 is split evenly."""
    assert plan(rows, low, high).strategy == "even"


@given(st.integers(-(2**63), 2**63), st.integers(0, 2**64), st.integers(1, 10**12))
def test_the_factor_is_rounded_up(low: int, span: int, rows: int) -> None:
    """Never below the true quotient, and less than a ten-thousandth above it (plus float precision)."""
    factor = distribution_factor(low, low + span, rows)
    true = (span + 1) / rows
    assert true <= factor * (1 + 1e-15)
    assert factor <= (true + 0.0001) * (1 + 1e-15)
    assert math.isinf(distribution_factor(Decimal(low), low + span, 0))


@given(st.integers(-(2**63), 2**63), st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 10**5))
def test_even_bounds_lie_in_the_table(low: int, span: int, rows: int, size: int) -> None:
    """Ascending, above min, at most max; the last one is less than a step below max."""
    made = plan(rows, low, low + span, chunk_rows=size)
    if made.strategy == "even" and made.estimated_chunks > 1:
        assert made.step is not None
        ends = [int((made.even_bound(n) or ("",))[0]) for n in (1, made.estimated_chunks - 1)]
        assert low < ends[0] <= ends[1] <= low + span < ends[1] + int(made.step)


@pytest.mark.parametrize(
    ("of", "rows", "strategy", "reason"),
    [
        (TABLE, 100, "even",
         "number key: even if its distribution factor allows it, else walked; about 10 rows a chunk"),
        (table(text(), key=["s"]), 100, "uneven",
        "walked: the key s is VARCHAR, which the server walks, 10 rows a chunk"),
        (TABLE, 10, "one", "one chunk: about 10 rows fit one chunk of 10"),
    ],
)  # fmt: skip
def test_statistics_alone_say_what_to_expect(of: Table, rows: int, strategy: str, reason: str) -> None:
    """No table is read: no minimum or maximum, no factor, and a chunk count from the estimated rows."""
    made = decide(of, Statistics(rows, 100, 0), None, Snapshot(chunk_rows=10))
    assert (made.strategy, made.reason, made.estimated_chunks) == (strategy, reason, rows // 10)
    assert (made.minimum, made.maximum, made.factor) == (None, None, None)


def test_the_factor_of_one_chunk_is_shown() -> None:
    """A small table with a numeric key has a factor, although it is not used."""
    assert plan(10, 1, 100).factor == 10.0


def test_a_plan_tells_what_the_contract_says() -> None:
    """Names, texts and numbers; chunks are computed separately."""
    found = plan(100, 1, 100, chunk_rows=50).summary()
    assert found == {
        "table": "shop.orders",
        "approx_rows": 100,
        "chunk_key": ["id"],
        "min": "1",
        "max": "100",
        "distribution_factor": 1.0,
        "strategy": "even",
        "reason": "number key, distribution factor 1 within 0.05–1000, about 50 rows a chunk",
        "chunk_rows": 50,
        "estimated_chunks": 2,
    }


@pytest.mark.parametrize(
    ("rules", "row_bytes", "rows"),
    [
        ({"chunk_rows": 7}, 100, 7),
        ({"target_bytes": 4096}, 100, 40),
        ({"target_bytes": 4096}, 10**6, 1),
        ({"target_bytes": 2**40}, 0, 5_000_000),
    ],
)
def test_rows_of_a_chunk(rules: dict[str, Any], row_bytes: int, rows: int) -> None:
    """As configured, else by size, at least one and at most five million."""
    assert chunk_rows(TableRules(**{"chunk_rows": 0, **rules}), row_bytes) == rows


def test_rules_of_a_table_decide_its_plan() -> None:
    """Rows per chunk, factor limits and key, by glob."""
    indexed = table(
        ID,
        column("v", "int"),
        key=["id"],
        indexes=[Index("PRIMARY", ("id",)), Index("by_v", ("v",))],
        clustered=("id",),
    )
    rules = {"shop.*": {"chunk_rows": 50, "even_factor_upper": 2.0}, "*.orders": {"key": "v"}}
    made = plan(100, 1, 100, indexed, tables=rules)
    assert (made.chunk_rows, made.chunk_key, made.index, made.estimated_chunks) == (50, ("v", "id"), "by_v", 2)
    made = plan(100, 1, 201, indexed, tables=rules)
    assert made.reason == "walked, by v, id: the distribution factor 2.01 is outside 0.05–2, 50 rows a chunk"
    made = plan(100, 1, 100, indexed, tables={"shop.other": {"chunk_rows": 50}})
    assert (made.chunk_rows, made.chunk_key) == (10, ("id",))
