"""Which table is verified next, and how long the verifier rests."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import clock
from engine.journal.verification_summary import Summary
from engine.ledger.state import State, TableState
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text
from engine.pipeline.table_verdict import TableFacts, verdict_of
from engine.pipeline.verification_records import Details, Difference, ForeignChanges
from engine.pipeline.verifications import read_details, read_summaries, save
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import Coverage
from engine.source.positions import Position
from engine.spec.verify_settings import Verify
from engine.verify.continuous import due_ranges, forget_replaced, hurried, known_at_start, oldest, rest_s, written
from engine.verify.recorded import forgotten, merged, planned
from engine.verify.table_check import NumberedRange
from engine.verify.verdicts import PartResult, TableResult

COPIED = TableState({"key": ["id"]}, {}, Coverage(runs=(Range(),)), rows_read=10_000)
NONE: Details = Details(table="d.t", complete=False, parts=[], differences=[])
RANGES = [NumberedRange(0, Range(None, ("5",))), NumberedRange(1, Range(("5",), None))]


def state(**tables: TableState) -> State:
    """A state with these tables."""
    return State(1, "ledger", "server", Position("b.000001", 4), 1, tables)


def verified(at: str, verdict: str = "verified") -> Summary:
    """A table that was compared as a whole, or could not be."""
    parts = (PartResult(0, None, None, 10, 0),) if verdict == "verified" else ()
    return merged(None, NONE, TableResult("d.t", verdict, parts=parts, at=at), 0)[0]  # type: ignore[arg-type]


def test_the_oldest_comes_first() -> None:
    """First a table that was never compared, then one that could not be compared in its turn.

    Stopped ones not at all.
    """
    tables = state(a=COPIED, b=COPIED, c=replace(COPIED, coverage=Coverage()), d=replace(COPIED, table={"key": []}))
    assert oldest(tables, {}) == "a"
    assert oldest(tables, {"a": verified("2026-01-02")}) == "b"
    assert oldest(tables, {"a": verified("2026-01-02"), "b": verified("2026-01-01", "lagging")}) == "b"
    assert oldest(tables, {"a": verified("2026-01-02"), "b": verified("2026-01-03", "unverifiable")}) == "a"
    was_verified = replace(verified("2026-01-01"), verdict="lagging", last="2026-01-04")
    assert oldest(tables, {"a": was_verified, "b": verified("2026-01-02")}) == "b"
    assert oldest(tables, {"a": forgotten(verified("2026-01-02"), 1), "b": verified("2026-01-01")}) == "a"
    assert oldest(state(), {}) is None


def test_written_mirrors_come_first() -> None:
    """Until all their rows were compared since, whether they differ or not; the one compared longest ago first."""
    tables = state(a=COPIED, b=COPIED, c=replace(COPIED, coverage=Coverage()))
    changed = ForeignChanges(commits=1, version=7)
    before = replace(verified("2026-01-02"), version=6)
    at_it = replace(before, version=7)
    assert written(tables, {"b": before}, dict.fromkeys("abc", changed)) == ["a", "b"]
    assert written(tables, {"a": before, "b": before}, {"b": changed, "gone": changed}) == ["b"]
    for done in (at_it, replace(at_it, differences=3), replace(before, verdict="unverifiable")):
        assert written(tables, {"a": done}, {"a": changed}) == [], done
    for waits in (replace(at_it, level="counts"), replace(at_it, at=""), replace(before, verdict="lagging")):
        assert written(tables, {"a": waits}, {"a": changed}) == ["a"], waits


def test_a_mirror_that_could_not_be_read_does_not_wait_for_its_turn() -> None:
    """The alert clears soon after it can be read again; a look every few seconds is enough."""
    tables = state(a=COPIED, b=COPIED)
    broken = TableResult("d.t", "unverifiable", "a file is gone", "Resnapshot it.", at="2026-01-03")
    summary = merged(verified("2026-01-02"), NONE, broken, 0)[0]
    assert hurried(tables, {"a": verified("2026-01-01"), "b": summary}, {}) == ["b"]
    assert hurried(tables, {"b": replace(summary, last=clock.utc_text())}, {}) == []
    changed = ForeignChanges(commits=1, version=7)
    before = replace(verified("2026-01-02"), version=6)
    assert hurried(tables, {"a": before, "b": summary}, {"a": changed}) == ["b", "a"]


def test_parts_are_planned_before_they_are_compared() -> None:
    """So that a large table is compared part by part, and counts as verified once all were."""
    summary, details = planned(None, NONE, RANGES, 0)
    assert (summary.parts, summary.compared, summary.at, details.complete) == (2, 0, "", True)
    for number, at in ((1, ""), (0, "2026-01-01T00:00:00Z")):
        part = details.parts[number]
        result = TableResult(
            "d.t",
            "verified",
            parts=(PartResult(number, part.lower, part.upper, 4, 0),),
            whole=False,
            at=f"2026-01-0{2 - number}T00:00:00Z",
        )
        summary, details = merged(summary, details, result, 0)
        assert summary.at == at
    assert (summary.compared, summary.rows) == (2, 8)


@pytest.mark.parametrize(
    ("rows", "took_s", "soon", "expected"),
    [
        (10_000, 1.0, False, 86_400 / 2 / 1.2 - 1),  # half of the work in half of the period, and a bit faster
        (10_000, 1.0, True, 19.0),  # at most the share
        (10_000, 0.1, True, 11_000 / 5000 - 0.1),
        (0, 0.0, False, 1000 / 22_000 * 86_400 / 1.2),  # an empty table takes some of the time too
    ],
)
def test_it_rests(rows: int, took_s: float, soon: bool, expected: float) -> None:
    """Two tables of ten thousand rows within a day, in at most a twentieth of the time."""
    found = rest_s(Verify(period="1d"), state(a=COPIED, b=COPIED), rows, took_s, soon=soon)
    assert found == pytest.approx(expected)


def test_the_chunks_compared_longest_ago_are_due() -> None:
    """With the bounds that were saved, because the journals forget them."""
    _, details = planned(None, NONE, RANGES, 0)
    plan = Plan("d.t", 8, 80, ("id",), "PRIMARY", "1", "8", None, "uneven", "", 50_000, 2)
    assert due_ranges(details.parts, plan) == (RANGES[0],)
    parts = [replace(details.parts[0], at="2026-01-01"), *details.parts[1:]]
    assert due_ranges(parts, plan) == (RANGES[1],)
    assert due_ranges(parts, plan, [0]) == (RANGES[0],), "that it can be read needs this one"
    assert due_ranges(parts, plan, [0, 1]) == tuple(RANGES)
    assert due_ranges(parts[:1], plan) == ()


def test_differences_of_a_replaced_mirror_are_forgotten(tmp_path: Path) -> None:
    """A resnapshot repairs them. They must not be reported again when the first chunk of the new copy was compared."""
    directory = Directory(tmp_path)
    found = Difference("missing", ("4",))
    parts = (PartResult(0, None, "5", 9, 1), PartResult(1, "5", None, 9, 0))
    result = TableResult("d.t", "diverged", differences=(found,), differences_total=1, parts=parts, at="2026-01-01")
    summary, details = merged(None, NONE, result, 0)
    save(directory, {"d.t": summary}, [details])
    summaries = read_summaries(directory)
    forget_replaced(directory, state(**{"d.t": replace(COPIED, generation=1)}), summaries)
    summary, details = planned(summaries["d.t"], read_details(directory, "d.t"), RANGES, 1)
    first = TableResult("d.t", "verified", parts=(PartResult(0, None, "5", 9, 0),), whole=False, at="2026-01-02")
    assert merged(summary, details, first, 1)[0].differences == 0
    save(directory, {"d.t": merged(None, NONE, result, 0)[0]}, [])
    forget_replaced(directory, state(), read_summaries(directory))
    gone = read_summaries(directory)["d.t"]
    assert gone.differences == 0, "the table was removed"
    assert verdict_of(TableFacts(gone, 0), 86400.0, 0.0).why == "it was resnapshotted since", "and was added again"


def test_what_a_run_journals_again(tmp_path: Path) -> None:
    """Rows that differ, for its alerts and metrics.

    Also a table that was repaired while no runner was alive and its alert stood.
    """
    directory = Directory(tmp_path)
    differs = merged(None, NONE, TableResult("d.t", "diverged", differences_total=1, at="2026-01-01"), 0)[0]
    save(directory, {"d.a": differs, "d.b": verified("2026-01-02"), "d.c": verified("2026-01-03")}, [])
    directory.alerts.write_text(list_text("alerts", [{"kind": "diverged", "table": "d.b"}]))
    assert known_at_start(directory) == {"d.c": "2026-01-03"}
