"""Which tables a pipeline can be given or lose, and what is said of them first."""

from dataclasses import replace

from app.view import membership_form, picking
from engine.decode.schema import Column, Index, Table
from engine.source.catalog import Statistics
from engine.source.survey import Surveyed
from tests.unit.app.support import table

ID = Column("id", "int", nullable=False, precision=10)


def surveyed(name: str, *, key: bool = True, rows: int = 12_000) -> Surveyed:
    """A table of the source."""
    facts = {"indexes": (Index("PRIMARY", ("id",)),)} if key else {}
    found = Table("shop", name, (ID,), ("id",) if key else (), **facts)  # type: ignore[arg-type]
    return Surveyed(found, Statistics(rows, 100, rows * 100, "InnoDB"))


def test_what_was_removed_can_be_added_again() -> None:
    """Stopped tables are the pipeline's still; those that are only known by name are not."""
    one = table(1, 1, name="shop.a")
    found = [one, replace(one, table="shop.b", state="stopped"), replace(one, table="shop.c", state="removed")]
    has = membership_form.captured([*found, replace(one, table="shop.d", state=None)])
    assert has == ["shop.a", "shop.b"]
    assert list(membership_form.offered([surveyed(name) for name in "abcde"], has)) == ["shop.c", "shop.d", "shop.e"]


def test_a_table_is_offered_with_what_it_costs() -> None:
    """By the server's estimates."""
    assert membership_form.label(surveyed("a")) == "shop.a · about 12k rows, 1.2 MB"


def test_what_speaks_against_a_table_is_said_before_it_is_added() -> None:
    """Of all that are chosen, the worst first."""
    some = [surveyed("a"), surveyed("b", key=False)]
    risks = picking.risks(some)
    assert [(name, badge.label) for name, badge in membership_form.faults(some, risks)] == [("shop.b", "no key")]
    assert membership_form.faults([], risks) == []
