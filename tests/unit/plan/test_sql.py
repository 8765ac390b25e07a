"""Golden SQL: range conditions, the walk's statements, a chunk's SELECT, and literals of bounds."""

from pathlib import Path

import pytest

from engine.capture.chunk.chunk_reader import ChunkRequest, select_statement
from engine.decode.schema import Column
from engine.plan.chunks import WHOLE, Range, after_bound, predicate, range_from, text
from engine.plan.keys import Bound, ChunkKey, fetched
from engine.plan.ordering import order_statement
from engine.plan.walk import key_statement
from engine.store.local_folder import LocalFolder
from tests.unit.plan import support
from tests.unit.plan.support import column, key_of

A = column("a`b", "int")
AB = key_of(column("a", "int"), column("b", "decimal", precision=9, scale=2), column("c", "date"))
NULLABLE = key_of(column("a", "int", nullable=True), column("b", "int"))


@pytest.mark.parametrize(
    ("key", "lower", "upper", "sql"),
    [
        (key_of(A), None, None, ""),
        (key_of(A), None, ("5",), "`a``b` < 5"),
        (key_of(A), ("-5",), ("5",), "`a``b` >= -5 AND `a``b` < 5"),
        (key_of(A), ("5",), None, "`a``b` >= 5"),
        (NULLABLE, None, ("5",), "(`a` < 5 OR `a` IS NULL)"),
        (NULLABLE, None, ("5", "6"), "(((`a` = 5 AND `b` < 6) OR (`a` < 5)) OR `a` IS NULL)"),
        (NULLABLE, ("5",), ("6",), "`a` >= 5 AND `a` < 6"),
        (NULLABLE, None, None, ""),
        (
            AB,
            ("1",),
            ("1", "2.50", "2026-01-31"),
            "`a` >= 1 AND ((`a` = 1 AND `b` = 2.50 AND `c` < '2026-01-31') OR (`a` = 1 AND `b` < 2.50) OR (`a` < 1))",
        ),
        (AB, ("1", "2.50"), None, "((`a` = 1 AND `b` >= 2.50) OR (`a` > 1))"),
    ],
)
def test_the_condition_of_a_range(key: ChunkKey, lower: Bound | None, upper: Bound | None, sql: str) -> None:
    """Row by row, in ORs that become index ranges; NULL keys are in the first chunk; names are quoted."""
    assert predicate(key, Range(lower, upper)) == sql


def test_the_condition_of_what_lies_behind_a_bound() -> None:
    """Strictly after: keys that begin with the bound are excluded."""
    assert after_bound(AB, ("1",)) == "`a` > 1"
    assert after_bound(AB, ("1", "2.50")) == "((`a` = 1 AND `b` > 2.50) OR (`a` > 1))"


@pytest.mark.parametrize(
    ("column", "bound", "sql"),
    [
        (column("k", "bigint", unsigned=True), "18446744073709551615", "18446744073709551615"),
        (column("k", "year"), "2026", "2026"),
        (column("k", "decimal", precision=20, scale=10), "0.0000001000", "0.0000001000"),
        (column("k", "decimal", precision=20, scale=10), "0.0000000000", "0.0000000000"),
        (column("k", "decimal", precision=65), "-" + "9" * 65, "-" + "9" * 65),
        (column("k", "double"), "0.1", "0.1"),
        (column("k", "double"), "1e-05", "1e-05"),
        (column("k", "double"), "-1.5e+300", "-1.5e+300"),
        (column("k", "float"), "0.10000000149011612", "0.10000000149011612"),
        (column("k", "bit", precision=9), "257", "257"),
        (column("k", "datetime", fraction=3), "2026-01-31 10:00:00.250", "'2026-01-31 10:00:00.250'"),
        (column("k", "time", fraction=3), "-838:59:59.000", "CAST('-838:59:59.000' AS TIME(3))"),
        (column("k", "binary", length=3), "00FF27", "x'00FF27'"),
        (column("k", "uuid"), "00000000-0000-0000-0000-000000000001",
        "CAST('00000000-0000-0000-0000-000000000001' AS UUID)"),
        (column("k", "inet6"), "::1", "CAST('::1' AS INET6)"),
        (
            support.text("k", charset="latin1", collation="latin1_swedish_ci"),
            "é'\\",
            "CONVERT(_utf8mb4 x'c3a9275c' USING latin1) COLLATE latin1_swedish_ci",
        ),
    ],
)  # fmt: skip
def test_a_bound_as_sql(column: Column, bound: str, sql: str) -> None:
    """A key's text never becomes SQL; a DECIMAL never gets an exponent, which would make it a DOUBLE."""
    assert key_of(column).literal(0, bound) == sql


@pytest.mark.parametrize(
    ("of", "value", "bound"),
    [
        (column("k", "int"), 7, "7"),
        (column("k", "double"), 1.0, "1.0"),
        (column("k", "binary"), "0A", "0A"),
        (support.text("k"), "C3A9", "é"),
    ],
)
def test_a_fetched_value_as_a_bound(of: Column, value: object, bound: str) -> None:
    """Its text; texts as hexadecimal digits of their UTF-8."""
    assert fetched(of, value) == bound


def test_the_statements_of_a_walk() -> None:
    """One index range, ordered, one row; a bound with all columns tells whether the key is after it."""
    table = support.table(*AB.columns, key=["a", "b", "c"])
    keys = "SELECT `a` AS k0, `b` AS k1, CAST(`c` AS CHAR) AS k2, "
    source = "FROM `shop`.`orders` AS t FORCE INDEX (`PRIMARY`)"
    order = "ORDER BY `t`.`a`, `t`.`b`, `t`.`c` LIMIT 1 OFFSET "
    assert key_statement(table, AB, WHOLE, 9) == f"{keys}TRUE AS exact, TRUE AS beyond {source} {order}9"
    assert (
        key_statement(table, AB, Range(("1",), ("5",)), 9)
        == f"{keys}TRUE AS exact, TRUE AS beyond {source} WHERE `a` >= 1 AND `a` < 5 {order}9"
    )
    lower = ("1", "2", "2026-01-31")
    behind_it = "((`a` = 1 AND `b` = 2 AND `c` > '2026-01-31') OR (`a` = 1 AND `b` > 2) OR (`a` > 1))"
    assert (
        key_statement(table, AB, Range(lower, None), 9)
        == f"{keys}TRUE AS exact, {behind_it} AS beyond {source} WHERE {behind_it.replace('`c` >', '`c` >=')} {order}9"
    )
    assert (
        key_statement(table, AB, Range(lower, ("5",)), 0, strictly=True)
        == f"{keys}TRUE AS exact, {behind_it} AS beyond {source} WHERE {behind_it} AND `a` < 5 {order}0"
    )


def test_a_text_that_does_not_convert_back_is_marked() -> None:
    """In charsets with unassigned codes; UTF-8 has none."""
    latin = support.text("s", charset="greek", collation="greek_general_ci")
    statement = key_statement(support.table(latin), key_of(latin), WHOLE, 9)
    assert "HEX(`s`) = HEX(CONVERT(CONVERT(`s` USING utf8mb4) USING greek)) AS exact" in statement
    assert "TRUE AS exact" in key_statement(support.table(support.text("s")), key_of(support.text("s")), WHOLE, 9)


def test_a_walk_passes_over_null() -> None:
    """NULL keys belong to the first chunk and are no bounds."""
    table = support.table(*NULLABLE.columns)
    assert key_statement(table, key_of(NULLABLE.columns[0], index="by_a"), Range(None, ("5",)), 2) == (
        "SELECT `a` AS k0, TRUE AS exact, TRUE AS beyond FROM `shop`.`orders` AS t FORCE INDEX (`by_a`) "
        "WHERE (`a` < 5 OR `a` IS NULL) AND `a` IS NOT NULL ORDER BY `t`.`a` LIMIT 1 OFFSET 2"
    )


@pytest.mark.parametrize(
    ("identity", "key", "limits", "rest"),
    [
        (["a", "b"], AB, WHOLE, " FORCE INDEX (`PRIMARY`) ORDER BY `a`, `b`, `c` LIMIT 18"),
        (["a"], AB, Range(("5",), ("6",)),
        " FORCE INDEX (`PRIMARY`) WHERE `a` >= 5 AND `a` < 6 ORDER BY `a`, `b`, `c` LIMIT 18"),
        (["a", "v"], AB, Range(None, ("6",)), " FORCE INDEX (`PRIMARY`) WHERE `a` < 6"),
        (["a", "v"], AB, WHOLE, ""),
        (["b"], NULLABLE, Range(None, ("5",)), " FORCE INDEX (`PRIMARY`) WHERE (`a` < 5 OR `a` IS NULL)"),
        (["b"], NULLABLE, Range(("5",), None), " FORCE INDEX (`PRIMARY`) WHERE `a` >= 5 ORDER BY `a`, `b` LIMIT 18"),
        (["b"], NULLABLE, WHOLE, ""),
        (["a"], None, WHOLE, ""),
        ([], None, WHOLE, ""),
    ],
)  # fmt: skip
def test_the_select_of_a_chunk(identity: list[str], key: ChunkKey | None, limits: Range, rest: str) -> None:
    """Listed columns, one range of the key's index, and at most twice the planned rows.

    Without the limit if it could separate rows with equal keys: if the key does not contain the primary key, or is
    NULL.
    """
    columns = (column("a", "int"), column("b", "int"), column("c", "date"), column("v", "int"))
    request = ChunkRequest(support.table(*columns, key=identity), 0, key, limits, 9, LocalFolder(Path()), 0)
    assert select_statement(request) == f"SELECT `a`, `b`, `c`, `v` FROM `shop`.`orders`{rest}"


def test_the_statement_that_asks_for_the_order_of_values() -> None:
    """One row per value, one digit per bound: 0 less, 1 equal, 2 greater."""
    column = support.text("k")

    def literal(hexed: str) -> str:
        return f"CONVERT(_utf8mb4 x'{hexed}' USING utf8mb4) COLLATE utf8mb4_general_ci"

    assert order_statement(column, ["a", "'"], ["B", ""]) == (
        f"SELECT i, CONCAT((v > {literal('42')}) + (v >= {literal('42')}), (v > {literal('')}) + (v >= {literal('')})) "
        f"AS signs FROM (SELECT 0 AS i, {literal('61')} AS v UNION ALL SELECT 1 AS i, {literal('27')} AS v) AS k"
    )


@pytest.mark.parametrize(
    ("bound", "shown"), [(None, None), (("7",), "7"), (("é", '"'), '["é", "\\""]'), (("1", "2"), '["1", "2"]')]
)
def test_a_bound_as_the_contract_writes_it(bound: Bound | None, shown: str | None) -> None:
    """The value's text; for several columns a JSON list of texts; null for an open end."""
    assert text(bound) == shown
    assert range_from(Range(bound, None).as_list()) == Range(bound, None)
