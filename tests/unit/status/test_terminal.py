"""A run in a terminal: one line or one bar per table, whenever its chunks are split."""

import io
from collections.abc import Sequence

from rich.console import Console
from rich.progress import Task

from engine.journal import Entry
from engine.status.terminal import Lines, Screen, line
from tests.support.entries import entry

Bounds = Sequence[str | None]


def planned(chunks: Sequence[Bounds] = (), estimated: int | None = 400) -> Entry:
    """A table's plan."""
    return _event("table.planned", chunks=list(chunks), estimated_chunks=estimated, reason="because")


def split(*numbers: int, complete: bool = False, table: str = "d.t") -> Entry:
    """Chunks that were split off."""
    return _event("chunk.planned", chunks=[[number, "1", "2"] for number in numbers], complete=complete, table=table)


def _event(name: str, **fields: object) -> Entry:
    return entry(name, "2026-11-21T05:00:00.000000Z", **{"table": "d.t", **fields})


def bar(*events: Entry) -> Task:
    """The table's bar after these events."""
    screen = Screen(Console(file=io.StringIO()), "p")
    for event in events:
        screen.hear(event)
    return screen._progress.tasks[-1]


def test_a_plan_is_a_line_and_a_chunk_is_none() -> None:
    """There are thousands of chunks; a log must not have a line for each."""
    out = io.StringIO()
    lines = Lines(Console(file=out))
    for event in (planned(), split(0, 1), split(2, complete=True)):
        lines.hear(event)
    assert out.getvalue() == "2026-11-21T05:00:00Z d.t: about 400 chunks, because\n"
    assert line(planned([[None, "5"], ["5", None]], 9)) == "d.t: 2 chunks, because"
    assert line(planned((), None)) == "d.t: because"


def test_a_bar_is_as_long_as_the_estimate_until_the_last_chunk_is_split() -> None:
    """It is never full before that, even if the estimate was too low."""
    assert bar(planned()).total == 400
    assert bar(planned(), split(*range(12))).total == 400
    assert bar(planned(), split(*range(400))).total == 401
    assert bar(planned(), split(*range(12)), split(complete=True)).total == 12
    assert bar(planned(), split(*range(12), complete=True), split(5, 12)).total == 13
    assert bar(planned((), None), split(0, 1)).total is None
    assert bar(planned((), None), split(0, 1, complete=True)).total == 2


def test_the_bar_of_a_table_that_is_listed_whole_has_its_chunks() -> None:
    """Whatever the estimate; a split makes the bar longer, another table's chunks do not."""
    listed = planned([[None, "5"], ["5", None]], 9)
    assert bar(listed).total == 2
    assert bar(_event("table.state", state="removed", reason=None), listed).total == 2
    assert bar(listed, _event("table.state", state="removed", reason=None)).description == "p: log"
    assert bar(listed, split(1, 2)).total == 3
    assert bar(listed, split(1, 2, table="d.other")).total == 2
    read = bar(listed, _event("chunk.finished", rows=1500))
    assert (read.completed, read.fields["note"]) == (1, "1,500 rows")
