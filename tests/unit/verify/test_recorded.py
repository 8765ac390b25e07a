"""What a table's verification is after one more result."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import SpecError
from engine.journal.verification_summary import Summary
from engine.pipeline.directory import Directory
from engine.pipeline.table_verdict import TableFacts, verdict_of
from engine.pipeline.verification_records import Details, Difference, ForeignChanges
from engine.pipeline.verifications import has_proved, read_details, read_summaries
from engine.verify.recorded import Recorder, forgotten, merged
from engine.verify.scope import share
from engine.verify.verdicts import PartResult, TableResult, worst

DAY = 86_400.0
NONE: Details = Details(table="d.t", complete=False, parts=[], differences=[])
PARTS = (PartResult(0, None, "10", 9, 0), PartResult(1, "10", None, 5, 0))
WHOLE = TableResult("d.t", "verified", position="b.1:4", version=3, rows=14, parts=PARTS, at="2026-01-01T00:00:00Z")
FOUND = Difference("missing", ("4",), chunk=0)
NOW_S = 1_767_225_600.0 + 3600
"""2026-01-01T01:00:00Z."""


def state_of(
    summary: Summary | None,
    generation: int,
    period_s: float,
    now_s: float,
    foreign: ForeignChanges | None = None,
    *,
    stopped: bool = False,
) -> tuple[str, str]:
    """The state of a table and the reason."""
    verdict = verdict_of(TableFacts(summary, generation, "", foreign, stopped), period_s, now_s)
    return verdict.state, verdict.why


def diverged(result: TableResult, *found: Difference) -> TableResult:
    """The result with differences."""
    counts: dict[str, int] = {one.kind: sum(other.kind == one.kind for other in found) for one in found}
    return replace(result, verdict="diverged", differences=found, differences_total=len(found), by_kind=counts)


def test_a_table_is_as_old_as_its_oldest_part() -> None:
    """A later comparison of one part leaves the others as they are."""
    summary, details = merged(None, NONE, WHOLE, 0)
    assert (summary.at, summary.rows, summary.parts) == (WHOLE.at, 14, 2)
    assert state_of(summary, 0, DAY, NOW_S) == ("verified", "")
    later = replace(WHOLE, parts=PARTS[:1], whole=False, at="2026-01-02T00:00:00Z", position="b.1:9", version=4)
    summary, details = merged(summary, details, later, 0)
    assert (summary.at, summary.last, summary.position) == (WHOLE.at, later.at, "b.1:4")
    assert [part.at for part in details.parts] == [later.at, WHOLE.at]


def test_a_clock_that_was_set_back_does_not_make_an_old_part_prove_anything() -> None:
    """The summary has the oldest version of all parts, whatever the times of their comparisons."""
    summary, details = merged(None, NONE, WHOLE, 0)
    back = replace(WHOLE, parts=PARTS[:1], whole=False, at="2025-12-31T22:00:00Z", version=8)
    summary, _ = merged(summary, details, back, 0)
    assert (summary.at, summary.version) == (back.at, WHOLE.version)
    assert not has_proved(summary, 6)


def test_a_part_does_not_verify_a_table() -> None:
    """A table is stale until all of it was compared."""
    summary, _ = merged(None, NONE, replace(WHOLE, parts=PARTS[:1], whole=False), 0)
    assert summary.at == ""
    assert state_of(summary, 0, DAY, NOW_S)[0] == "stale"


def test_when_it_is_stale() -> None:
    """Not compared yet, resnapshotted since, or compared more than two periods ago."""
    summary, _ = merged(None, NONE, WHOLE, 0)
    assert state_of(None, 0, DAY, NOW_S) == ("stale", "it was not compared yet")
    assert state_of(summary, 1, DAY, NOW_S) == ("stale", "it was resnapshotted since")
    assert state_of(summary, 0, 1000.0, NOW_S) == ("stale", "it was verified too long ago")


def test_a_mirror_that_another_program_changed_is_stale_until_all_rows_are_compared() -> None:
    """At that version or a later one, row by row, and without a difference."""
    foreign: ForeignChanges = ForeignChanges(commits=1, version=4)
    stale = ("stale", "another program changed its mirror")
    summary, details = merged(None, NONE, replace(WHOLE, version=3), 0)
    assert state_of(None, 0, DAY, NOW_S, foreign) == stale
    assert state_of(summary, 0, DAY, NOW_S, foreign) == stale
    for number in (0, 1):
        part = replace(
            WHOLE, parts=PARTS[number : number + 1], whole=False, version=4 + number, at=f"2026-01-0{2 + number}"
        )
        assert not has_proved(summary, 4)
        summary, details = merged(summary, details, part, 0)
    assert has_proved(summary, 4)
    assert not has_proved(summary, 5)
    differs, _ = merged(None, NONE, diverged(replace(WHOLE, version=4), FOUND), 0)
    assert not has_proved(differs, 4)
    assert state_of(differs, 0, DAY, NOW_S, foreign)[0] == "diverged"
    again, _ = merged(None, NONE, replace(WHOLE, version=4), 0)
    assert state_of(again, 0, DAY, NOW_S, foreign) == ("verified", "")


def test_counted_rows_prove_nothing_about_another_programs_changes() -> None:
    """Nor do they if other parts are compared later."""
    summary, details = merged(None, NONE, replace(WHOLE, level="counts", version=9), 0)
    assert not has_proved(summary, 4)
    part = replace(WHOLE, parts=PARTS[:1], whole=False, version=9, at="2026-01-02T00:00:00Z")
    summary, details = merged(summary, details, part, 0)
    assert not has_proved(summary, 4)
    summary, _ = merged(summary, details, replace(part, parts=PARTS[1:]), 0)
    assert has_proved(summary, 4)


def test_differences_stay_until_their_rows_are_compared_again() -> None:
    """Another part says nothing about them; their part, their keys or the whole table does."""
    other = Difference("different", ("12",), ("v",), chunk=1)
    summary, details = merged(None, NONE, diverged(WHOLE, FOUND, other), 0)
    assert (summary.differences, state_of(summary, 0, DAY, NOW_S)[0]) == (2, "diverged")
    part = replace(WHOLE, parts=PARTS[1:], whole=False)
    left, kept = merged(summary, details, part, 0)
    assert (left.differences, left.by_kind, [list(one.key) for one in kept.differences]) == (
        1,
        {"missing": 1},
        [["4"]],
    )
    keys = replace(WHOLE, parts=(), whole=False)
    left, kept = merged(summary, details, keys, 0, [("4",), ("12",)])
    assert (left.differences, left.verdict, kept.differences, len(kept.parts)) == (0, "verified", (), 2)
    assert merged(summary, details, WHOLE, 0)[0].differences == 0


def test_what_cannot_be_compared_keeps_what_is_known() -> None:
    """An unverifiable table says why; a lagging one is verified as before."""
    summary, details = merged(None, NONE, WHOLE, 0)
    lagging, kept = merged(summary, details, TableResult("d.t", "lagging", "why", at="2026-01-03T00:00:00Z"), 0)
    assert (lagging.at, lagging.verdict, kept) == (WHOLE.at, "lagging", details)
    stopped, _ = merged(summary, details, TableResult("d.t", "unverifiable", "it has stopped", at=WHOLE.at), 0)
    assert state_of(stopped, 0, DAY, NOW_S) == ("unverifiable", "it has stopped")


def test_results_are_saved(tmp_path: Path) -> None:
    """A recorder adds to what another one has saved."""
    directory = Directory(tmp_path)
    assert read_summaries(directory) == {}
    assert read_details(directory, "d.t").parts == ()
    for name in ("d.t", "d." + "long" * 60):
        recorder = Recorder(directory)
        recorder.record(replace(diverged(WHOLE, FOUND), table=name), 0)
        recorder.flush()
        assert read_details(directory, name).differences[0].key == ("4",)
    assert {name: one.differences for name, one in read_summaries(directory).items()} == {"d.t": 1, name: 1}


def test_worst() -> None:
    """A difference outweighs what could not be compared."""
    lagging = replace(WHOLE, verdict="lagging")
    assert (worst([]), worst([WHOLE, lagging]), worst([lagging, diverged(WHOLE, FOUND)])) == (
        "verified",
        "lagging",
        "diverged",
    )


def test_shares() -> None:
    """`5%` or `0.05`."""
    assert (share(""), share("5%"), share("0.25"), share("100%")) == (1.0, 0.05, 0.25, 1.0)
    for wrong in ("0", "101%", "five", "-1"):
        with pytest.raises(SpecError):
            share(wrong)


def test_differences_that_are_not_listed_are_not_forgotten() -> None:
    """Only a thousand are listed. When those are gone, the part with the others is still different."""
    many = tuple(Difference("missing", (str(n),), chunk=0) for n in range(3))
    parts = (replace(PARTS[0], differences=3), replace(PARTS[1], differences=2))
    whole = replace(diverged(WHOLE, *many), parts=parts, differences_total=5)
    summary, details = merged(None, NONE, whole, 0)
    first = replace(WHOLE, parts=PARTS[:1], whole=False)
    left, kept = merged(summary, details, first, 0)
    assert (left.verdict, left.differences) == ("diverged", 2)
    assert merged(left, kept, replace(WHOLE, parts=PARTS[1:], whole=False), 0)[0].differences == 0


def test_repaired_rows_leave_no_trace_in_their_parts() -> None:
    """Rows named by key are in no part; when all differences are gone, no part has any, listed or not."""
    parts = (replace(PARTS[0], differences=2), PARTS[1])
    summary, details = merged(None, NONE, replace(diverged(WHOLE, FOUND), parts=parts, differences_total=2), 0)
    keys = replace(WHOLE, parts=(), whole=False)
    some, kept = merged(summary, details, keys, 0, [("4",)])
    assert (some.verdict, some.differences, kept.parts[0].differences) == ("diverged", 1, 2)
    found, kept = merged(summary, details, keys, 0, [("4",), ("5",)])
    assert (found.verdict, [part.differences for part in kept.parts]) == ("verified", [0, 0])


def test_a_row_that_differs_still_is_counted_once() -> None:
    """Another comparison of a range, which is none of the known parts, may find the same rows."""
    summary, details = merged(None, NONE, diverged(WHOLE, FOUND), 0)
    ranged = replace(
        diverged(WHOLE, replace(FOUND, chunk=None)), whole=False, parts=(PartResult(None, "1", "9", 5, 1),)
    )
    assert merged(summary, details, ranged, 0)[0].differences == 1


def test_an_older_result_does_not_replace_a_later_one(tmp_path: Path) -> None:
    """A command saves its summaries some time after it compared; another process may have found differences since."""
    directory = Directory(tmp_path)
    slow, fast = Recorder(directory), Recorder(directory)
    slow.record(WHOLE, 0)
    fast.record(replace(diverged(WHOLE, FOUND), at="2026-01-01T00:00:09Z"), 0)
    fast.flush()
    slow.flush()
    assert read_summaries(directory)["d.t"].verdict == "diverged"
    slow.record(replace(WHOLE, at="2026-01-01T00:00:19Z"), 0)
    slow.flush()
    assert read_summaries(directory)["d.t"].verdict == "verified"


def test_a_mirror_that_cannot_be_read_is_verified_only_when_that_part_was_read() -> None:
    """Another part proves nothing about it.

    Its part, the whole table, or all parts one by one do; so does a new snapshot.
    """
    summary, details = merged(None, NONE, WHOLE, 0)
    lost = TableResult("d.t", "unverifiable", "a file is gone", "Resnapshot it.", at="2026-01-01T00:10:00Z")
    gone = ("unverifiable", "a file is gone")
    broken, kept = merged(summary, details, lost, 0, chunks=(1,))
    assert (state_of(broken, 0, DAY, NOW_S), kept) == (gone, details)
    good = replace(WHOLE, whole=False, at="2026-01-01T00:20:00Z")
    other, kept = merged(broken, details, replace(good, parts=PARTS[:1]), 0)
    assert (other.verdict, state_of(other, 0, DAY, NOW_S)) == (*gone[:1], gone)
    verified = ("verified", "")
    assert state_of(merged(other, kept, replace(good, parts=PARTS[1:]), 0)[0], 0, DAY, NOW_S) == verified
    assert state_of(merged(other, kept, replace(good, whole=True), 0)[0], 0, DAY, NOW_S) == verified
    whole, _ = merged(summary, details, lost, 0)
    first, kept = merged(whole, details, replace(good, parts=PARTS[:1]), 0)
    assert state_of(first, 0, DAY, NOW_S) == gone
    assert state_of(merged(first, kept, replace(good, parts=PARTS[1:]), 0)[0], 0, DAY, NOW_S) == verified
    replaced = forgotten(summary, 1)
    assert state_of(replaced, 1, DAY, NOW_S) == ("stale", "it was resnapshotted since")
    assert [getattr(replaced, name) for name in ("rows", "version", "position", "parts", "compared")] == [
        0,
        None,
        None,
        0,
        0,
    ]
    assert state_of(forgotten(broken, 1), 1, DAY, NOW_S)[0] == "stale"
    again, _ = merged(broken, details, lost, 1)
    assert (again.generation, again.at, state_of(again, 1, DAY, NOW_S)) == (1, "", gone)


def test_a_stopped_table_is_stale() -> None:
    """Whatever was verified before, and although a verification says that it cannot be compared.

    Rows that differ still do.
    """
    summary, details = merged(None, NONE, WHOLE, 0)
    stopped = ("stale", "it is stopped")
    assert state_of(summary, 0, DAY, NOW_S, stopped=True) == stopped
    refused, _ = merged(summary, details, TableResult("d.t", "unverifiable", "it has stopped: a date"), 0)
    assert state_of(refused, 0, DAY, NOW_S, stopped=True) == stopped
    differs, _ = merged(None, NONE, diverged(WHOLE, FOUND), 0)
    assert state_of(differs, 0, DAY, NOW_S, stopped=True)[0] == "diverged"
