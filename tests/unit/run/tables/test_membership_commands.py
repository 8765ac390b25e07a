"""Commands to add and remove tables: what is refused, and what the ledger says of one that was interrupted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import SpecError
from engine.decode.schema import Column, Table
from engine.ledger.records import Removal
from engine.ledger.state import State, TableState
from engine.plan.chunks import Plan
from engine.run.tables.membership_commands import ADD, REMOVE, command_from, members_of
from engine.source.positions import Position


def known(name: str, **more: Any) -> TableState:
    """A table of the ledger."""
    table = Table("d", name, (Column("id", "int", nullable=False),), ("id",))
    plan = Plan(table.full_name, 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "one", "", 9, 1)
    return TableState(table.as_dict(), plan.as_dict(), **more)


STATE = State(
    3,
    "l",
    "i",
    Position("b.000001", 4),
    1,
    tables={"d.a": known("a"), "d.b": known("b", by="c1")},
    removed={"d.old": known("old", removed=Removal("c2", drop=True))},
)


def command(verb: str, *tables: str, identity: str = "c9", **more: Any) -> Any:
    """A command that came while the ledger says so."""
    return command_from(identity, Path(), verb, {"tables": list(tables), **more}, STATE)


@pytest.mark.parametrize(
    ("verb", "tables", "says"),
    [
        (ADD, ["d.a"], "has d.a already"),
        (ADD, ["d.new", "d.b"], "has d.b already"),
        (REMOVE, ["d.nothing"], "has no table d.nothing"),
        (REMOVE, ["d.old"], "was removed already"),
        (REMOVE, ["d.a", "d.b"], "No table would be left"),
        (REMOVE, [], "does not say which tables"),
    ],
)
def test_what_the_ledger_alone_shows_to_be_impossible_is_refused(verb: str, tables: list[str], says: str) -> None:
    """All that a command names, or nothing."""
    with pytest.raises(SpecError, match=says) as raised:
        command(verb, *tables)
    assert raised.value.detail == "Nothing was added or removed."


def test_a_command_of_a_killed_runner_is_recognised() -> None:
    """By its own id: it is done, or begun, and not refused as one that asks for what is there."""
    added = command(ADD, "d.b", identity="c1")
    assert added.done(STATE)
    removing = command(REMOVE, "d.old", identity="c2", drop=True)
    assert (removing.begun(STATE), removing.done(STATE)) == (True, False)
    dropped = replace(STATE.removed["d.old"], dropped=True)
    assert removing.done(replace(STATE, removed={"d.old": dropped}))


def test_a_new_command_names_each_table_once() -> None:
    """And says whether what is published goes too."""
    wish = command(REMOVE, "d.a", "d.a", drop=True)
    assert (wish.tables, wish.drop, wish.adds, wish.begun(STATE)) == (("d.a",), True, False, False)
    assert wish.describe() == "d.a with all published data"


def test_the_ledger_overrules_the_globs() -> None:
    """Captured tables stay, removed ones stay away, whatever the spec's globs say."""
    members = members_of(STATE)
    there = [("d", name) for name in ("a", "b", "old", "new")]
    assert members.chosen(["x.*"], there) == [("d", "a"), ("d", "b")]
    assert members.chosen(["d.*"], there) == [("d", "a"), ("d", "b"), ("d", "new")]
