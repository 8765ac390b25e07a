"""Where a table is in a database."""

from dataclasses import replace

import pytest

from engine.destination.database.sql_server import TablePlace
from engine.destination.database.table_names import beside, place_of
from tests.unit.destination.support import OLD


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("{database}.{table}", TablePlace("d", "t")),
        ("lake.{database}_{table}", TablePlace("lake", "d_t")),
        ("{table}", TablePlace("own", "t")),
        ("x_{database}.{table}_copy", TablePlace("x_d", "t_copy")),
    ],
)
def test_a_rule_names_the_table(rule: str, place: TablePlace) -> None:
    """Without a dot, it is where Tidemark's own tables are."""
    assert place_of(rule, OLD, "own", 63) == place


def test_names_of_the_source_are_no_rules() -> None:
    """A database may be called like a part of a rule."""
    table = replace(OLD, database="{table}", name="a.b")
    assert place_of("{database}.{table}", table, "own", 63) == TablePlace("{table}", "a.b")


@pytest.mark.parametrize("letter", ["a", "ü", "😀"])
def test_long_names_are_cut_and_stay_different(letter: str) -> None:
    """By the bytes that a database counts."""
    names = [letter * 60 + end for end in ("x", "y")]
    places = [place_of("{table}", replace(OLD, name=name), "own", 50) for name in names]
    copies = [beside(place, "copy", "p d.t", 50) for place in places]
    found = {place.name for place in (*places, *copies)}
    assert len(found) == 4
    assert all(len(name.encode()) <= 50 for name in found)
    assert beside(places[0], "copy", "q d.t", 50) not in copies, "another pipeline has other names"
