"""What the journals say about one table: how far its changes have come, their kinds, its chunks and its state."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.history import History, event_queries, series, table_details, table_queries
from engine.history.fetch import Cursor
from engine.history.table_details import Changes, Flow
from tests.support.simulation import SimulatedTable, Simulation

START = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
TABLE = "shop.orders"
Write = Callable[..., datetime]


@pytest.fixture
def run(tmp_path: Path) -> Simulation:
    """A run that has planned its table."""
    return Simulation(tmp_path / "shop", [SimulatedTable(TABLE, 400_000, 40)], start=START)


def indexed(*simulations: Simulation) -> Cursor:
    """A cursor on an index over the journals of these runs."""
    index = History(None)
    index.refresh({simulation.directory for simulation in simulations})
    return index.cursor()


def later(run: Simulation, name: str, **fields: object) -> datetime:
    """Write a line a second later. Returns its time."""
    run.now += timedelta(seconds=1)
    run.write(name, **fields)
    return run.now


def committed(
    run: Simulation,
    epoch: int,
    kinds: tuple[int, int, int, int] | None = (1, 1, 1, 0),
    redumped: tuple[int, int, int, int] | None = None,
) -> datetime:
    """An epoch with changes of the table; `kinds` is None in an earlier version's journal.

    redumped: those of redumps.
    """
    again = {} if redumped is None else {"redumped": {TABLE: list(redumped)}}
    by_kind = None if kinds is None else {TABLE: list(kinds), "shop.other": [9, 0, 0, 0]}
    tables = {TABLE: 3 if kinds is None else sum(kinds), "shop.other": 9}
    place, changes = "b.000001:4", sum(tables.values())
    fields = {"epoch": epoch, "to_position": place, "tables": tables, "table_kinds": by_kind, "changes": changes}
    return later(run, "epoch.committed", **fields, **again)


def applied(run: Simulation, kind: str, epoch: int) -> datetime:
    """A commit in the destination."""
    return later(run, "sink.applied", sink="delta", table=TABLE, kind=kind, through_epoch=epoch)


def found(*runs: Simulation) -> Flow:
    """The flow of the table."""
    cursor = indexed(*runs)
    return table_details.flow(cursor, "shop", TABLE, table_queries.copied_at(cursor, "shop", TABLE))


def test_a_change_is_committed_then_published_then_merged(run: Simulation) -> None:
    """Each step has its time, and what has not been reached has the time since when it waits."""
    assert found(run) == Flow(None, None, None, None, None)
    later(run, "table.state", table=TABLE, state="streaming")
    first = committed(run, 1)
    assert found(run) == Flow(first, None, None, first, first)
    appended = applied(run, "append", 1)
    second = committed(run, 2)
    assert found(run) == Flow(second, appended, None, second, first)
    appended, merged = applied(run, "append", 2), applied(run, "merge", 1)
    assert found(run) == Flow(second, appended, merged, None, second)
    merged = applied(run, "merge", 2)
    assert found(run) == Flow(second, appended, merged, None, None)
    later(run, "epoch.committed", epoch=3, tables={TABLE: 0})
    assert found(run) == Flow(second, appended, merged, None, None)


def test_changes_of_the_copy_do_not_wait_for_a_merge(run: Simulation) -> None:
    """The commit that completes a copy contains them. It is an append, or a replacement after a resnapshot."""
    change = committed(run, 1)
    assert found(run).unmerged_since is None
    assert found(run).unpublished_since == change
    later(run, "table.state", table=TABLE, state="streaming")
    applied(run, "append", 1)
    assert found(run).unmerged_since is None


def test_a_line_that_a_killed_runner_could_not_write_is_not_waited_for(run: Simulation) -> None:
    """The next run has published what earlier runs committed before it reads anything."""
    committed(run, 1)
    again = Simulation(run.directory.root, run.tables, run="second", start=run.now + timedelta(seconds=9), resume=run)
    assert found(run, again).unpublished_since is None
    change = committed(again, 2)
    assert found(run, again).unpublished_since == change


def test_changes_are_counted_by_kind_since_a_time(run: Simulation) -> None:
    """Only those of the table. An update has two entries and is one update."""
    committed(run, 1, (5, 2, 2, 1))
    second = committed(run, 2, (1, 0, 0, 3))
    cursor = indexed(run)
    assert table_details.changes(cursor, "shop", TABLE) == Changes(14, 6, 2, 4)
    assert table_details.changes(cursor, "shop", TABLE, second) == Changes(4, 1, 0, 3)
    assert table_details.changes(cursor, "shop", TABLE, second + timedelta(seconds=1)) == Changes(0, 0, 0, 0)


def test_redumped_rows_are_no_changes_of_the_source(run: Simulation) -> None:
    """They are not counted by kind, nor in the rate, and are no last change.

    But they wait to be published and merged.
    """
    later(run, "table.state", table=TABLE, state="streaming")
    change = committed(run, 1, (2, 0, 0, 0))
    applied(run, "append", 1)
    applied(run, "merge", 1)
    again = committed(run, 2, (900, 0, 0, 5), (900, 0, 0, 5))
    cursor = indexed(run)
    assert table_details.changes(cursor, "shop", TABLE) == Changes(907, 2, 0, 0, 905)
    flow = found(run)
    assert (flow.committed, flow.unpublished_since, flow.unmerged_since) == (change, again, again)
    (progress,) = (one for one in table_queries.progress(cursor, "shop") if one.table == TABLE)
    assert (progress.changes, progress.last_change_s) == (2, change.timestamp())
    assert sum(epoch.changes for epoch in series.epochs(cursor, START, 100)["shop"]) == 20, (
        "those of the other table too"
    )


def test_kinds_that_the_journal_does_not_have_are_unknown(run: Simulation) -> None:
    """Not 0, and not the sum of the others."""
    committed(run, 1, None)
    committed(run, 2, (1, 0, 0, 0))
    assert table_details.changes(indexed(run), "shop", TABLE) == Changes(4, None, None, None)


def test_chunks_are_counted_by_state(run: Simulation) -> None:
    """With the first of each state, so that a page can link to a parked one."""
    later(run, "chunk.assigned", table=TABLE, chunks=[3, 4], group="g")
    for chunk in (3, 4):
        later(run, "chunk.parked", table=TABLE, chunk=chunk, error="E", message="m", attempts=8, parked=1)
    counts = {one.state: (one.chunks, one.first) for one in table_details.chunk_counts(indexed(run), "shop", TABLE)}
    assert counts == {"parked": (2, 3), "waiting": (38, 0)}


def test_a_state_began_with_its_first_line(run: Simulation) -> None:
    """Later runs repeat it. The reason and the hint are those of the stop; other states have none."""
    assert table_details.state(indexed(run), "shop", "shop.gone") is None
    began = table_details.state(indexed(run), "shop", TABLE)
    assert began is not None
    assert (began.state, began.since, began.reason) == ("copying", START, None)
    at = later(run, "table.state", table=TABLE, state="stopped", reason="no such column", hint="Add it.")
    later(run, "table.state", table=TABLE, state="stopped")
    stopped = table_details.state(indexed(run), "shop", TABLE)
    assert stopped is not None
    assert (stopped.state, stopped.since, stopped.reason, stopped.hint) == ("stopped", at, "no such column", "Add it.")
    later(run, "table.state", table=TABLE, state="copying")
    copying = table_details.state(indexed(run), "shop", TABLE)
    assert copying is not None
    assert (copying.state, copying.since, copying.reason) == ("copying", run.now, None)


def test_events_of_a_table_include_errors_that_mention_it(run: Simulation) -> None:
    """Journals of earlier versions name the table of an error only in its message."""
    later(run, "chunk.failed", table=TABLE, chunks=[1], error="E", message="m")
    later(run, "chunk.failed", table="shop.other", chunks=[1], error="E", message="m")
    later(run, "error", error="DestinationError", message=f"Publishing {TABLE} failed")
    later(run, "error", error="TransientError", message="a timeout")
    later(run, "error", error="TransientError", message="a part was lost", table=TABLE)
    later(run, "error", error="E", message=f"copied from {TABLE}", table="shop.other")
    lines = event_queries.events(indexed(run), "shop", ["error", "chunk.failed"], table=TABLE)
    assert [(one.event, one.table) for one in lines] == [("error", TABLE), ("error", None), ("chunk.failed", TABLE)]


def test_an_event_on_its_own_is_over_like_in_the_list(run: Simulation) -> None:
    """A failed chunk that was read since needs nobody."""
    later(run, "chunk.failed", table=TABLE, chunks=[1], error="E", message="m")
    for over in (False, True):
        cursor = indexed(run)
        (listed,) = event_queries.events(cursor, "shop", ["chunk.failed"], table=TABLE)
        assert listed.resolved == over
        assert event_queries.one(cursor, "shop", listed.run, listed.seq) == listed
        later(run, "chunk.finished", table=TABLE, chunk=1, rows=1)
