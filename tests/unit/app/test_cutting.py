"""How far a table is cut, in words."""

from dataclasses import replace

from app.view.cutting import cut, follow, read, state
from tests.unit.app.support import growing, plan, table


def test_a_plan_says_how_many_chunks_are_cut() -> None:
    """All of them, some of about so many, or some of no one knows how many."""
    assert cut(plan(1)) == "1 chunk"
    assert cut(plan(1200, 900)) == "1,200 chunks"
    assert cut(plan(12, 400, complete=False)) == "12 of about 400 chunks cut"
    assert cut(plan(0, 400, complete=False)) == "0 of about 400 chunks cut"
    assert cut(plan(410, 400, complete=False)) == "410 chunks cut, more follow"
    assert cut(plan(0, None, complete=False)) == "0 chunks cut, more follow"


def test_the_map_says_that_more_chunks_follow() -> None:
    """Only as long as they do."""
    assert follow(plan(12, 400, complete=False)) == "More follow: 12 of about 400 chunks cut so far."
    assert follow(plan(410, 400, complete=False)) == "More follow: 410 chunks cut so far."
    assert follow(plan(400, 400)) == ""
    assert follow(None) == ""


def test_a_table_counts_what_is_read_of_what_is_expected() -> None:
    """`about` for what is not certain, and nothing for a table without a plan."""
    assert read(table(40, 12)) == "12 of 40"
    assert read(growing(20, 12, 400)) == "12 of about 400"
    assert read(table(0, 0)) == "—"


def test_a_table_that_is_planned_and_no_more_is_waiting() -> None:
    """Without a plan nothing is known of it."""
    assert state(replace(growing(0, 0, 400), state=None)) == "waiting"
    assert state(replace(table(0, 0), state=None)) == "—"
    assert state(growing(0, 0, 400)) == "snapshotting"
