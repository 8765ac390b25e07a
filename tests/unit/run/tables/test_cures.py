"""Which stopped tables a changed spec brings back, and which it takes out."""

from pathlib import Path

import pytest

from engine.base.errors import DecodeError, TableGoneError, TableStoppedError, TidemarkError, stop_of
from engine.decode.schema import Column, Index, Table
from engine.ledger.state import State, TableState
from engine.plan.chunks import Plan
from engine.run.tables.cures import cured, left_out
from engine.source.positions import Position
from engine.spec.settings import Spec, parse

ID, V = Column("id", "int", nullable=False), Column("v", "date")
PLAN = Plan("d.t", 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "even", "", 9, 1, "10", "10")
DATES = "with source.invalid_dates = 'null' in the spec, the next start resnapshots the table"


def spec(source: str = "", tables: str = '["d.*"]', more: str = "") -> Spec:
    """A spec with these lines in [source]."""
    text = f'name = "p"\n[source]\nhost = "h"\nuser = "u"\ntables = {tables}\n{source}\n[sink]\npath = "lake"\n{more}'
    return parse(text, Path("/tmp/p.toml"))  # noqa: S108 - nothing is there


def state(error: TidemarkError | None, *, by: str | None = None) -> State:
    """A pipeline with a table that streams, and one that this error stopped."""
    table, other = (Table("d", name, (ID, V), ("id",), indexes=(Index("PRIMARY", ("id",)),)) for name in ("t", "u"))
    stopped = TableState(table.as_dict(), PLAN.as_dict(), stopped=stop_of(error, "d.t") if error else None, by=by)
    streams = TableState(other.as_dict(), PLAN.as_dict())
    return State(1, "l", "i", Position("b.000001", 4), 1, {"d.t": stopped, "d.u": streams})


def date(column: str) -> DecodeError:
    """The stop over an invalid date."""
    return DecodeError(f"Column '{column}' (DATE): the date 0000-00-00 does not exist.", hint=DATES)


MAY_NOT_COPY = TableStoppedError("d.t was altered.", detail="nothing was published (source.schema_changes = stop).")
TOO_OFTEN = TableStoppedError("too often", hint="source.max_resnapshots_per_hour is 20; with more, it does.")


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (date("v"), "", 'invalid_dates = "null"'),
        (MAY_NOT_COPY, 'schema_changes = "stop"', 'schema_changes = "copy"'),
        (TOO_OFTEN, "", "max_resnapshots_per_hour = 21"),
    ],
)
def test_a_setting_that_removes_the_cause_brings_the_table_back(error: TidemarkError, before: str, after: str) -> None:
    """Not the setting with which it stopped."""
    assert cured(spec(before), state(error)) == []
    assert cured(spec(after), state(error)) == ["d.t"]
    assert cured(spec(after), state(None)) == []


def test_dates_in_the_key_are_never_null() -> None:
    """So the setting does not help, and the table would stop again at each start."""
    assert cured(spec('invalid_dates = "null"'), state(date("id"))) == []


def test_other_published_columns_bring_a_stopped_table_back() -> None:
    """A column that cannot be read may be left out now. Tables that stream need a command for that."""
    other = spec(more='[tables."d.t"]\nexclude = ["v"]\n[tables."d.u"]\nexclude = ["v"]\n')
    assert cured(other, state(TableStoppedError("d.t is not captured."))) == ["d.t"]


def test_a_stopped_table_that_the_globs_do_not_select_any_more_leaves() -> None:
    """One that a command added was never selected, one that streams is not affected, and one table is left."""
    gone = TableGoneError("d.t was dropped or renamed.")
    without = spec(tables='["d.*", "!d.t"]')
    assert left_out(without, state(gone)) == ["d.t"]
    assert left_out(spec(), state(gone)) == []
    assert left_out(without, state(gone, by="c")) == []
    assert left_out(spec(tables='["d.*", "!d.u"]'), state(gone)) == []
    only = state(gone)
    assert left_out(without, State(1, "l", "i", Position("b.000001", 4), 1, {"d.t": only.tables["d.t"]})) == []
