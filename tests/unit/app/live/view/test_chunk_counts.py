"""How many chunks of a table are planned, in words."""

from dataclasses import replace

from app.live.view.chunk_counts import changed_note, chunks_read, more_note, planned_chunks, state, troubled_first, who
from engine.history.chunk_splits import ChunkSplit
from tests.unit.app.support import growing, plan, table


def test_a_plan_shows_how_many_chunks_are_planned() -> None:
    """All chunks, some of an estimated number, or some of an unknown number."""
    assert planned_chunks(plan(1)) == "1 chunk"
    assert planned_chunks(plan(1200, 900)) == "1,200 chunks"
    assert planned_chunks(plan(12, 400, complete=False)) == "12 of about 400 chunks planned"
    assert planned_chunks(plan(0, 400, complete=False)) == "0 of about 400 chunks planned"
    assert planned_chunks(plan(410, 400, complete=False)) == "410 chunks planned, more follow"
    assert planned_chunks(plan(0, None, complete=False)) == "0 chunks planned, more follow"


def test_the_map_shows_that_more_chunks_follow() -> None:
    """Only while chunks are being planned."""
    assert more_note(plan(12, 400, complete=False)) == "More follow: 12 of about 400 chunks planned so far."
    assert more_note(plan(410, 400, complete=False)) == "More follow: 410 chunks planned so far."
    assert more_note(plan(400, 400)) == ""
    assert more_note(None) == ""


def test_a_table_counts_the_chunks_read_of_those_expected() -> None:
    """With `about` for an estimate, and `—` without a plan."""
    assert chunks_read(table(40, 12)) == "12 of 40"
    assert chunks_read(growing(20, 12, 400)) == "12 of about 400"
    assert chunks_read(table(0, 0)) == "—"


def test_a_table_that_is_only_planned_is_waiting() -> None:
    """Without a plan, its state is unknown."""
    assert state(growing(0, 0, 400)._replace(state=None), "running") == "waiting"
    assert state(table(0, 0)._replace(state=None), "running") == "—"
    assert state(growing(0, 0, 400), "running") == "snapshotting"


def test_the_map_says_why_the_number_of_chunks_changed() -> None:
    """Only with what the journal has: splits of large chunks, and the estimate from statistics."""
    eleven, one = [ChunkSplit(n, "1", "2") for n in range(11)], [ChunkSplit(0, "1", "2", into=(1,))]
    split = "11 were split because they had more than twice the planned rows."
    assert changed_note(plan(131, 120), eleven) == f"120 chunks planned, 131 now: {split}"
    walked = replace(plan(131, 120), strategy="uneven")
    assert changed_note(walked, eleven) == f"About 120 chunks expected from the server's statistics, 131 now. {split}"
    assert changed_note(walked, []) == "About 120 chunks expected from the server's statistics, 131 now."
    assert changed_note(plan(40, 120, complete=False), eleven) == split
    assert changed_note(plan(2, 1), one) == (
        "1 chunk planned, 2 now: 1 was split because it had more than twice the planned rows (0 into 1)."
    )
    assert changed_note(plan(120, 120), []) == changed_note(plan(12, 120, complete=False), []) == ""
    assert changed_note(plan(120), []) == changed_note(None, []) == ""


def test_a_table_says_who_acts() -> None:
    """You on a stopped table; the runner on chunks that it retries, while it lives."""
    fine = table(10, 5)
    assert who(fine, live=True) == ""
    assert who(fine._replace(state="stopped", failed=2), live=False) == "you"
    assert [who(fine._replace(failed=2), live=live) for live in (True, False)] == ["runner retries", ""]


def test_tables_that_need_someone_come_first() -> None:
    """Those that stopped, then those with chunks that are retried, among hundreds."""
    tables = [table(1, 1, name=f"d.t{n}") for n in range(500)]
    tables[300] = tables[300]._replace(failed=1)
    tables[400] = tables[400]._replace(state="stopped")
    assert [one.table for one in troubled_first(tables)][:3] == ["d.t400", "d.t300", "d.t0"]
