"""Projections: filters in SQL's three-valued logic, masks, excluded columns, and specs that are refused."""

import hashlib
import hmac
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SpecError, TableStoppedError
from engine.capture.binlog.emission import published_images
from engine.capture.binlog.row_changes import FACTS, RowChanges
from engine.capture.binlog.statements import without_values
from engine.capture.projection.filter_parser import parse_where
from engine.capture.projection.projection_rules import (
    check_altered,
    check_rules,
    check_spec,
    projection_of,
    projection_record,
)
from engine.capture.projection.row_filter import collated_columns, filter_mask
from engine.capture.projection.table_projection import Projection, published_as
from engine.decode.arrow_schema import arrow_schema
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.decode.schema import Column, Index, Table
from engine.spec.settings import Spec, parse

TABLE = Table(
    "shop",
    "orders",
    (
        Column("id", "int", nullable=False),
        Column("n", "smallint"),
        Column("price", "decimal", precision=8, scale=2),
        Column("rate", "float"),
        Column("day", "date"),
        Column("at", "datetime", fraction=6),
        Column("stamp", "timestamp"),
        Column("name", "varchar", length=80, charset="utf8mb4", collation="utf8mb4_general_ci"),
        Column("state", "enum", charset="utf8mb4", labels=("new", "done")),
        Column("blob", "varbinary", length=8),
        Column("flag", "bit", precision=1),
        Column("points", "vector"),
        Column("year", "year"),
    ),
    ("id",),
)
POOLS: dict[str, list[tuple[str, Any]]] = {
    "n": [("-32768", -32768), ("-1", -1), ("0", 0), ("7", 7), ("TRUE", 1)],
    "price": [
        ("-1.5", Decimal("-1.50")),
        ("0", Decimal(0)),
        ("2.25", Decimal("2.25")),
        ("999999.99", Decimal("999999.99")),
    ],
    "rate": [("-0.0", -0.0), ("0", 0.0), ("1.5e1", 15.0), ("-.5", -0.5)],
    "day": [("'2024-02-29'", date(2024, 2, 29)), ("'1999-12-31'", date(1999, 12, 31))],
    # DATETIME has no zone.
    "at": [
        ("'2024-01-01'", datetime(2024, 1, 1)),  # noqa: DTZ001
        ("'2024-01-01 10:00:00.5'", datetime(2024, 1, 1, 10, 0, 0, 500000)),  # noqa: DTZ001
    ],
    "stamp": [
        ("'2024-01-01'", datetime(2024, 1, 1, tzinfo=UTC)),
        ("'2024-01-02T03:04:05'", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
    "name": [(f"'{text}'", text) for text in ("a", "A", "a ", "é", "\U0001f600", "\uffee", "")] + [("'it''s'", "it's")],
    "blob": [("x''", b""), ("x'00ff'", b"\x00\xff"), ("0x61", b"a")],
}  # fmt: skip
"""By column, literals and the values that they mean."""
OPERATORS = ("=", "!=", "<>", "<", "<=", ">", ">=")
Tree = tuple[Any, ...]


@st.composite
def leaves(draw: st.DrawFn) -> Tree:
    """One comparison, as (what, column, literals, operator)."""
    name = draw(st.sampled_from(sorted(POOLS)))
    what = draw(st.sampled_from(["compare", "mirrored", "in", "between", "null"]))
    literals = draw(st.lists(st.sampled_from(POOLS[name]), min_size=2, max_size=3))
    return what, name, literals, draw(st.sampled_from(OPERATORS)), draw(st.booleans())


TREES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


def sql(tree: Tree) -> str:
    """The text of a filter tree."""
    if tree[0] == "not":
        return f"NOT ({sql(tree[1])})"
    if tree[0] in ("and", "or"):
        return "(" + f" {tree[0].upper()} ".join(map(sql, tree[1])) + ")"
    what, name, literals, operator, negated = tree
    texts, no = [text for text, _ in literals], "NOT " if negated else ""
    return {
        "compare": f"`{name}` {operator} {texts[0]}",
        "mirrored": f"{texts[0]} {operator} `{name.upper()}`",
        "in": f"`{name}` {no}IN ({', '.join(texts)})",
        "between": f"`{name}` {no}BETWEEN {texts[0]} AND {texts[1]}",
        "null": f"`{name}` IS {no}NULL",
    }[what]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _every(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _compared(a: Any, operator: str, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    results = {"=": a == b, "!=": a != b, "<>": a != b}
    return bool(
        results[operator] if operator in results else {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]
    )


def truth(tree: Tree, row: dict[str, Any]) -> bool | None:
    """The naive model: Python values, None for unknown; Python orders texts by code points."""
    if tree[0] == "not":
        return _not(truth(tree[1], row))
    if tree[0] in ("and", "or"):
        parts = [truth(part, row) for part in tree[1]]
        return _every(parts) if tree[0] == "and" else _not(_every([_not(part) for part in parts]))
    what, name, literals, operator, negated = tree
    value, values = row[name], [v for _, v in literals]
    if what == "compare":
        return _compared(value, operator, values[0])
    if what == "mirrored":
        return _compared(values[0], operator, value)
    if what == "in":
        found = None if value is None else value in values
    elif what == "between":
        found = _every([_compared(value, ">=", values[0]), _compared(value, "<=", values[1])])
    else:
        found = value is None
    return _not(found) if negated else found


ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.sampled_from([None, *(value for _, value in pool)]) for name, pool in POOLS.items()}
    ),
    max_size=8,
)


@given(TREES, ROWS)
def test_a_filter_passes_what_is_true_in_three_valued_logic(tree: Tree, rows: list[dict[str, Any]]) -> None:
    """All conditions, nested in any way, over NULLs: exactly the rows pass that are true in the model."""
    schema = pa.schema([arrow_schema(TABLE).field(name) for name in POOLS])
    table = pa.Table.from_pylist(rows, schema=schema)
    assert filter_mask(parse_where(sql(tree), TABLE), table).tolist() == [truth(tree, row) is True for row in rows]


def test_columns_that_the_server_compares_otherwise_are_named() -> None:
    """Those with a collation by which other texts are equal, too; not labels, whose spelling is checked."""
    condition = parse_where("name = 'x' AND state = 'new' AND n = 1", TABLE)
    assert collated_columns(condition, TABLE) == {"name": "utf8mb4_general_ci"}
    exact = replace(TABLE, columns=tuple(replace(one, collation="utf8mb4_0900_bin") for one in TABLE.columns))
    assert collated_columns(condition, exact) == {}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("nam = 'x'", "no column 'nam'; the nearest is 'name'"),
        ("n = 1.5", "1.5 is not a value of 'n'"),
        ("n = 32768", "32768 is not a value of 'n'"),
        ("n = '1'", "'1' is not a value of 'n'"),
        ("price = 1.001", "1.001 is not a value of 'price'"),
        ("price < 1000000", "1000000 is not a value of 'price'"),
        ("day = '2024-02-30'", "is not a value of 'day'"),
        ("at > '2024-01-01 25:00:00'", "is not a value of 'at'"),
        ("name = 1", "1 is not a value of 'name'"),
        ("name = x'61'", "is not a value of 'name'"),
        ("state < 'new'", "ENUM, which is compared with = != IN alone"),
        ("state = 'NEW'", "'NEW' is not a label of 'state'; the nearest is 'new'"),
        ("year = 24", "24 is no YEAR; write it with four digits"),
        ("points = 1", "with IS NULL alone"),
        ("n = NULL", "say IS NULL"),
        ("n IN (1, NULL)", "say IS NULL"),
        ("n <=> 1", "is not understood"),
        ("name LIKE 'a%'", "is not understood"),
        ("n = 1 XOR n = 2", "is not understood"),
        ("n IS TRUE", "is not understood"),
        ("n", "is not understood"),
        ("n = price", "is not a value of 'n'"),
        ("n + 1 = 2", "n + 1 is not the plain name of a column"),
        ("orders.n = 1", "is not the plain name of a column"),
        ("n % 2 = 0", "n % 2 is not the plain name of a column"),
        ("0 = n % 2", "n % 2 is not the plain name of a column"),
        ("lower(name) = 'a'", "is not the plain name of a column"),
        ("n IN (SELECT 1)", "is not a list of literals"),
        ("name = 'a' COLLATE utf8mb4_bin", "is not a value of"),
        ("n = 1 /*!50000 OR 1 */", "contains a comment"),
        ("n = 1; DROP TABLE x", "not a condition"),
        ("", "not a condition"),
    ],
)
def test_what_is_not_understood_is_refused(where: str, why: str) -> None:
    """Anything but comparisons with literals of the column's type is refused, with the reason and what is allowed."""
    with pytest.raises(SpecError) as refused:
        parse_where(where, TABLE)
    assert why in refused.value.message
    assert "IS NOT NULL" in refused.value.hint


def spec(section: str, more: str = "") -> Spec:
    """A spec with a section `tables`."""
    return parse(
        f'name = "p"\n{more}\n[source]\nhost = "h"\nuser = "u"\ntables = ["shop.*"]\n[sink]\npath = "lake"\n{section}',
        Path("p.toml"),
    )


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (
            '[tables."shop.orders"]\nexclude = ["nam"]',
            "exclude names column 'nam', which does not exist; the nearest is 'name'",
        ),
        ('[tables."shop.orders"]\nmask = ["nope"]', "mask names column 'nope'"),
        ('[tables."shop.orders"]\ncolumns = ["n", "prize"]', "the nearest is 'price'"),
        ('[tables."shop.order"]\nexclude = ["n"]', "which no captured table matches; the nearest is 'shop.orders'"),
        ('[tables."shop.orders"]\nexclude = ["ID"]', "column 'id' cannot be left out"),
        ('[tables."shop.orders"]\nmask = ["id"]', "column 'id' cannot be masked"),
        ('[tables."shop.orders"]\nexclude = ["day"]', "column 'day' cannot be left out"),
        ('[tables."shop.orders"]\ncolumns = ["n"]', "column 'day' cannot be left out"),
        ('[tables."shop.orders"]\nmask = ["points"]', "has no text"),
        ('[tables."shop.orders"]\nwhere = "n = 1 AND"', "is not a condition"),
        ('[tables."shop.orders"]\nmasks = ["n"]', "the nearest known key is 'mask'"),
        ('[tables."shop.orders"]\nmask = { n = "md5" }', "sha256"),
        ('[tables."orders"]\nwhere = "n = 1"', "not of the form database.table"),
    ],
)
def test_specs_that_cannot_be_are_refused(section: str, why: str) -> None:
    """Unknown names, hidden keys and invalid filters are reported before anything starts. The chunk key is `day`."""
    with pytest.raises(SpecError) as refused:
        checked(spec(section))
    assert why in str(refused.value)


def checked(parsed: Spec) -> Projection:
    """The projection, after all checks of a start."""
    check_rules(parsed, [TABLE])
    return projection_of(parsed, TABLE, ["day"])


def test_the_salt_comes_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A literal salt and a dangling reference are refused; another salt gives another projection."""
    section = '[tables."shop.*"]\nmask = ["name"]'
    with pytest.raises(SpecError, match="contains the salt"):
        spec(section, 'mask_salt = "x"')
    salted = spec(section, 'mask_salt_env = "TM_SALT"')
    with pytest.raises(SpecError, match="not set"):
        checked(salted)
    records = [projection_record(spec(section), TABLE)]
    for salt in ("pepper-1", "pepper-2"):
        monkeypatch.setenv("TM_SALT", salt)
        records.append(projection_record(salted, TABLE))
        assert checked(salted).salt == salt.encode()
        assert salt not in repr((records, checked(salted)))
    assert len({record["rules"] for record in records if record}) == 3


def test_later_globs_win_field_by_field() -> None:
    """A field that the later section does not set comes from an earlier one; without sections nothing changes."""
    parsed = spec('[tables."shop.*"]\nexclude = ["n"]\nwhere = "n = 1"\n[tables."shop.o*"]\nexclude = ["rate"]')
    projection = checked(parsed)
    assert [c.name for c in TABLE.columns if projection.columns and c.name not in projection.columns] == ["rate"]
    assert projection.where is not None
    other = Table("shop", "x", TABLE.columns, ("id",))
    assert projection_of(parsed, other).columns is not None
    assert "n" not in (projection_of(parsed, other).columns or ())
    assert projection_of(spec(""), TABLE) == Projection()
    assert projection_record(spec(""), TABLE) is None


@given(ROWS)
def test_masks_are_digests_of_texts_and_bytes(rows: list[dict[str, Any]]) -> None:
    """A masked column is text; equal values have equal digests, NULL stays NULL, and excluded columns are gone."""
    table = pa.Table.from_pylist([{"id": n, **row} for n, row in enumerate(rows)], schema=arrow_schema(TABLE))
    plain = Projection(("id", "name", "blob", "n"), {"name": "sha256", "blob": "sha512", "n": "sha256"})
    shown = plain.apply(table)
    assert shown.schema == arrow_schema(published_as(TABLE, plain.as_dict()))
    assert shown.column_names == ["id", "n", "name", "blob"]
    texts = [(row["name"] or "").encode() for row in rows]
    expected = [
        hashlib.sha256(t).hexdigest() if r["name"] is not None else None for t, r in zip(texts, rows, strict=True)
    ]
    assert shown["name"].to_pylist() == expected
    numbers = [None if r["n"] is None else hashlib.sha256(str(r["n"]).encode()).hexdigest() for r in rows]
    assert shown["n"].to_pylist() == numbers
    salted = Projection(masks={"name": "sha256"}, salt=b"s").apply(table)["name"].to_pylist()
    keyed = [
        hmac.new(b"s", t, "sha256").hexdigest() if r["name"] is not None else None
        for t, r in zip(texts, rows, strict=True)
    ]
    assert salted == keyed


def test_updates_across_the_filter_become_inserts_and_deletes() -> None:
    """Into the filter: an insert; out of it: a delete; within it: both halves; outside: nothing."""
    projection = Projection(("id",), where=parse_where("n > 0", TABLE))
    n = [0, 1, 1, 0, 1, 2, None, 0, 5, None]
    kind = np.array([BEFORE, AFTER] * 4 + [INSERT, DELETE])
    rows = pa.Table.from_pylist([{"id": i, "n": v} for i, v in enumerate(n)], schema=arrow_schema(TABLE))
    facts = FACTS.empty_table()
    emit = projection.emission_mask(RowChanges(rows, facts), np.ones(len(n), bool))
    chosen, kinds = published_images(kind, emit)
    assert list(zip(chosen.tolist(), kinds.tolist(), strict=True)) == [
        (1, INSERT),
        (2, DELETE),
        (4, BEFORE),
        (5, AFTER),
        (8, INSERT),
    ]


def test_needed_columns_and_those_of_no_use() -> None:
    """A SELECT reads the published columns and the filter's; the others are skipped and not counted."""
    projection = Projection(("id", "name"), where=parse_where("at IS NULL", TABLE))
    assert [c.name for c in projection.needed_columns(TABLE)] == ["id", "at", "name"]
    assert [c.name for c in projection.tolerant(TABLE).columns if c.unread] == [
        c.name for c in TABLE.columns if c.name not in ("id", "at", "name")
    ]
    assert projection.published_counts({"day": 3, "name": 1}) == {"name": 1}
    assert arrow_schema(Projection(("name",)).tolerant(TABLE)).field("id").type == pa.null()  # though it is NOT NULL


@pytest.mark.parametrize("section", ['columns = ["n"]', 'mask = ["n"]', 'where = "n = 1"'])
def test_a_column_that_the_projection_needs_may_not_go(section: str) -> None:
    """Dropping it stops the table; dropping an excluded column or adding one does not."""
    parsed = spec(f'[tables."shop.orders"]\n{section}')
    without = Table("shop", "orders", tuple(c for c in TABLE.columns if c.name != "n"), ("id",))
    with pytest.raises(TableStoppedError, match="'n'"):
        check_altered(parsed, TABLE, without, ())
    check_altered(spec('[tables."shop.orders"]\nexclude = ["n"]'), TABLE, without, ())
    more = Table("shop", "orders", (*TABLE.columns, Column("extra", "int")), ("id",))
    check_altered(parsed, TABLE, more, ())
    projection = projection_of(parsed, more)
    assert ("extra" in (projection.columns or ["extra"])) == ("columns" not in section)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("UPDATE t2 SET `c1` = 'it\\', \"secret\"' WHERE id = 7", "UPDATE t2 SET `c1` = …"),
        ('INSERT INTO t VALUES ("secret")', "INSERT INTO t VALUES (…"),
        ("DELETE FROM shop.2020 WHERE n=42", "DELETE FROM shop.2020 WHERE n=…"),
        ("LOAD DATA INFILE " + "x" * 999, "LOAD DATA INFILE " + "x" * 183 + "…"),
        ("CALL fill()", "CALL fill()"),
    ],
)
def test_statements_are_reported_without_their_values(statement: str, shown: str) -> None:
    """Messages quote a statement up to its first literal, which may be a value of an excluded column."""
    assert without_values(statement) == shown


def test_a_spec_is_checked_against_each_table() -> None:
    """The spec gives the chunk key; tables that cannot be captured are not checked."""
    indexed = Table("shop", "orders", TABLE.columns, ("id",), indexes=(Index("PRIMARY", ("id",)), Index("d", ("day",))))
    cut = '[snapshot]\nchunk_key = { "shop.orders" = "day" }\n[tables."shop.*"]\nexclude = ["day"]'
    with pytest.raises(SpecError, match="'day' cannot be left out"):
        check_spec(spec(cut), [indexed])
    check_spec(spec('[tables."shop.*"]\nexclude = ["day"]'), [indexed])
    unfit = Table("shop", "orders", (*TABLE.columns, Column("odd", "nothing")), ("id",))
    check_spec(spec('[tables."shop.*"]\nwhere = "n = \'x\'"'), [unfit])
