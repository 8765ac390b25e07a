"""The tables that can be added to a pipeline or removed, and their risks."""

from app.common.view import picking
from app.live.view import membership_form
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


def test_a_removed_table_can_be_added_again() -> None:
    """A stopped table still belongs to the pipeline; one that is known only by name does not."""
    one = table(1, 1, name="shop.a")
    found = [one, one._replace(table="shop.b", state="stopped"), one._replace(table="shop.c", state="removed")]
    has = membership_form.captured([*found, one._replace(table="shop.d", state=None)])
    assert has == ["shop.a", "shop.b"]
    assert list(membership_form.offered([surveyed(name) for name in "abcde"], has)) == ["shop.c", "shop.d", "shop.e"]


def test_a_table_is_offered_with_its_size() -> None:
    """As the server estimates it."""
    assert membership_form.label(surveyed("a")) == "shop.a · about 12k rows, 1.2 MB"


def test_risks_are_shown_before_a_table_is_added() -> None:
    """Those of all chosen tables, worst first."""
    some = [surveyed("a"), surveyed("b", key=False)]
    risks = picking.risks(some)
    assert [(name, badge.label) for name, badge in membership_form.faults(some, risks)] == [("shop.b", "no key")]
    assert membership_form.faults([], risks) == []
