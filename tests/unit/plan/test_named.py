"""Keys and bounds from users: values become SQL and Arrow values; anything else is refused first."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest

from engine.base.errors import SpecError
from engine.decode.schema import Column
from engine.plan.chunks import Range
from engine.plan.keys import Bound
from engine.plan.named import check_keys, check_range, having, identities
from engine.plan.places import Signs
from tests.unit.plan.support import column, key_of, table, text

PRICE = column("p", "decimal", precision=9, scale=2)
MOMENT = column("m", "datetime")


def _ask(_: Column, values: Sequence[str], bounds: Sequence[str]) -> Signs:
    """A server with a case-insensitive collation."""
    ways = [[(v.lower() > b.lower()) - (v.lower() < b.lower()) for b in bounds] for v in values]
    return np.array(ways, np.int8)


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ((column("id", "int"),), ("seven",)),
        ((column("id", "int"),), ("1; DROP TABLE t",)),
        ((column("id", "int"),), ("1", "2")),
        ((PRICE,), ("NaN",)),
        ((MOMENT,), ("2026-01-31 10:00:00+01:00",)),
        ((MOMENT,), ("' OR 1=1 --",)),
        ((column("b", "varbinary", length=4),), ("xyz",)),
        ((column("t", "time"),), ("00:00:00') OR ('1'='1",)),
        ((column("f", "float"),), ("1.5",)),
        ((column("e", "enum", labels=("a",)),), ("a",)),
        ((text(charset="sjis", collation="sjis_japanese_ci"),), ("a",)),
    ],
)
def test_what_is_no_key_is_refused(columns: tuple[Column, ...], key: Bound) -> None:
    """A wrong type, too many columns, types without exact text, and anything beyond a value."""
    with pytest.raises(SpecError, match=r"shop\.orders"):
        check_keys(table(*columns, key=[c.name for c in columns]), [key])


def test_a_table_without_a_key_has_no_named_rows() -> None:
    """Nothing identifies its rows."""
    with pytest.raises(SpecError, match="no key"):
        check_keys(table(column("id", "int")), [("1",)])


def test_keys_become_a_condition_and_values() -> None:
    """Quotes included: text is sent as hexadecimal digits."""
    one = table(column("id", "int"), key=["id"])
    check_keys(one, [("5",), ("-7",)])
    assert having(one, [("5",), ("-7",)]) == "`id` IN (5, -7)"
    assert identities(one, [("5",), ("-7",)]).to_pydict() == {"id": [5, -7]}
    two = table(text("s"), PRICE, key=["s", "p"])
    check_keys(two, [("it's", "1.50")])
    assert having(two, [("it's", "1.50")]) == (
        "((`s` = CONVERT(_utf8mb4 x'69742773' USING utf8mb4) COLLATE utf8mb4_general_ci AND `p` = 1.50))"
    )
    assert identities(two, [("it's", "1.50")]).to_pylist() == [{"s": "it's", "p": Decimal("1.50")}]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (("5",), ("5",)),
        (("7",), ("5",)),
        (("5", "b"), ("5", "A")),
        (("5", "a"), ("5",)),
        (("5", "a", "x"), None),
        ((), None),
    ],
)
def test_a_range_that_is_empty_or_none_is_refused(lower: Bound | None, upper: Bound | None) -> None:
    """A reversed range would select everything else."""
    key = key_of(column("n", "int"), text("s"))
    with pytest.raises(SpecError):
        check_range(table(*key.columns, key=key.names), key, Range(lower, upper), _ask)


@pytest.mark.parametrize(
    ("lower", "upper"), [(None, None), (("5",), None), (("5",), ("7",)), (("5", "a"), ("5", "B")), (("5",), ("5", "a"))]
)
def test_a_range_is_a_range(lower: Bound | None, upper: Bound | None) -> None:
    """Also with fewer columns than the key; texts in the server's order."""
    key = key_of(column("n", "int"), text("s"))
    check_range(table(*key.columns, key=key.names), key, Range(lower, upper), _ask)
