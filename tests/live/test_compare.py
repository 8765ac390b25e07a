"""The comparison finds every difference that the live tests rely on."""

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.live.support.compare import apply_changes, assert_equal, log_faults, source_table
from tests.servers import Server

SNAPSHOT = pa.table({"id": [1, 2, 3], "v": ["a", "b", None]}).replace_schema_metadata({"key": '["id"]'})

TYPES = """
CREATE TABLE `{}`.`all types` (
    id INT UNSIGNED, part VARCHAR(10), big BIGINT UNSIGNED, tiny TINYINT, price DECIMAL(20,4), ratio FLOAT,
    exact DOUBLE, born DATE, seen DATETIME(3), changed TIMESTAMP(6) NULL, raw VARBINARY(9), fixed BINARY(4),
    picked ENUM('x','y'), flag BIT(1), PRIMARY KEY (part, id))
"""


def changes(*rows: tuple[str, int, str | None]) -> pa.Table:
    """A change log of (kind, id, v), numbered in order."""
    kinds, ids, values = zip(*rows, strict=True)
    own = {"id": ids, "v": values, "_tm_kind": kinds, "_tm_seq": range(len(rows))}
    return pa.table({name: pa.array(column) for name, column in own.items()})


def test_equal_tables_are_equal_whatever_their_order_and_extra_columns() -> None:
    """Row order, `_tm_` columns and a wider integer type make no difference."""
    mirror = pa.table({"id": pa.array([3, 1, 2], pa.int32()), "v": [None, "a", "b"], "_tm_seq": [1, 2, 3]})
    assert_equal(SNAPSHOT, mirror)


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        ([1, 2], ["a", "b"], r"1 missing in the mirror: \(3,\)"),
        ([1, 2, 3, 4], ["a", "b", None, "d"], r"1 only in the mirror: \(4,\)"),
        ([1, 2, 2, 3], ["a", "b", "b", None], r"1 twice in the mirror: \(2,\)"),
        ([1, 2, 3], ["a", "x", None], r"1 \"v\" differs \(key, source, mirror\): \(2, 'b', 'x'\)"),
        ([1, 2, 3], ["a", "b", ""], r"1 \"v\" differs \(key, source, mirror\): \(3, None, ''\)"),
    ],
)
def test_each_kind_of_difference_is_named(ids: list[int], values: list[str], message: str) -> None:
    """A missing, additional, doubled or changed row fails with its key."""
    with pytest.raises(AssertionError, match=message):
        assert_equal(SNAPSHOT, pa.table({"id": ids, "v": values}))


def test_missing_columns_are_a_difference() -> None:
    """All columns of the source must be there, in order."""
    with pytest.raises(AssertionError, match="columns differ"):
        assert_equal(SNAPSHOT, pa.table({"id": [1, 2, 3]}))


def test_changes_are_applied_in_order() -> None:
    """Inserts, deletes, updates, moved keys and reused keys give the right rows."""
    log = changes(
        ("-D", 1, "a"), ("+I", 1, "again"), ("-U", 2, "b"), ("+U", 9, "moved"), ("-D", 3, None), ("+I", 4, None)
    )
    expected = pa.table({"id": [1, 4, 9], "v": ["again", None, "moved"]})
    assert apply_changes(SNAPSHOT, log).to_pylist() == expected.to_pylist()
    assert log_faults(SNAPSHOT, log) == []


@pytest.mark.parametrize(
    "log",
    [
        changes(("+I", 1, "a")),
        changes(("-D", 4, "d")),
        changes(("-D", 1, "stale")),
        changes(("-U", 1, "a"), ("+U", 1, "x"), ("-U", 1, "a"), ("+U", 1, "y")),
        changes(("-U", 1, "a"), ("+U", 1, "x"), ("-U", 1, "a"), ("+U", 1, "x")),
    ],
    ids=["insert of a present row", "delete of an absent row", "stale image", "gap", "duplicate"],
)
def test_an_impossible_log_is_seen(log: pa.Table) -> None:
    """A change that does not match the row it finds is reported, even if the end result is right."""
    assert log_faults(SNAPSHOT, log)


def test_numbers_must_be_unique() -> None:
    """Two changes with the same ``_tm_seq`` are reported."""
    log = changes(("-D", 1, "a"), ("+I", 5, "e")).set_column(3, "_tm_seq", pa.array([7, 7]))
    assert log_faults(SNAPSHOT, log) == ["_tm_seq 7 occurs more than once"]


def test_the_source_is_read_exactly(server: Server, database: str) -> None:
    """Every type arrives as docs/types.md says, a FLOAT with all its digits, sorted by the whole key."""
    server.execute(TYPES.format(database))
    server.execute(
        f"""INSERT INTO `{database}`.`all types` VALUES
            (4000000000, 'b', 18446744073709551615, -128, -1.5, 16777216, 0.1, '2024-02-29', '2024-01-01 01:02:03.004',
             '2024-06-01 00:00:00.000001', x'00FF', 'ab', 'y', b'1'),
            (7, 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
    )
    table = source_table(server, database, "all types")
    assert table.column("part").to_pylist() == ["a", "b"]
    assert table.schema.metadata == {b"key": b'["part", "id"]'}
    empty, row = table.to_pylist()
    assert {name for name, value in empty.items() if value is not None} == {"id", "part"}
    assert row["id"] == 4_000_000_000
    assert row["big"] == Decimal(18446744073709551615)
    assert (row["tiny"], row["price"], row["ratio"], row["exact"]) == (-128, Decimal("-1.5"), 16777216.0, 0.1)
    assert str(row["born"]) == "2024-02-29"
    assert str(row["seen"]) == "2024-01-01 01:02:03.004000"
    assert row["changed"].isoformat() == "2024-06-01T00:00:00.000001+00:00"
    assert (row["raw"], row["fixed"], row["picked"], row["flag"]) == (b"\x00\xff", b"ab\0\0", "y", True)
