"""Chunks that fail on their own: they are retried alone, isolated from their group, and parked; the rest continues."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pytest

from engine.base.errors import ChunksParkedError, TidemarkError, TransientError
from engine.capture.reports import ReaderReport
from engine.capture.row_counter import RowCounter
from engine.capture.tasks import ChunkGroup
from engine.journal import Journal
from engine.ledger.state import TableState
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import read_parked
from engine.plan.chunks import Range
from engine.plan.coverage import Coverage
from engine.run.snapshot import scheduler
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.table_copy import PARKED_IN_ROW, TableCopy
from tests.unit.run.snapshot.copies import GROUP, Copies, copies, failure, report, table_copy

PENDING = {n: Range((str(n),), (str(n + 1),)) for n in range(12)}


def table(name: str = "t", rows: int = 10) -> TableCopy:
    """A table with twelve small chunks."""
    return table_copy(name, 12, rows=rows, coverage=Coverage(pending=PENDING))


def poisoned(*numbers: int) -> Callable[[ChunkGroup], list[ReaderReport]]:
    """Readers that fail at these chunks and stop reading."""

    def read(group: ChunkGroup) -> list[ReaderReport]:
        reports: list[ReaderReport] = []
        for request in group.requests:
            if request.number in numbers:
                return [*reports, failure(request, TransientError(f"no {request.number}"), own=True)]
            reports.append(report(request))
        return reports

    return read


def deadly(*numbers: int) -> Callable[[ChunkGroup], list[ReaderReport]]:
    """Readers that die at these chunks."""

    def read(group: ChunkGroup) -> list[ReaderReport]:
        if any(request.number in numbers for request in group.requests):
            raise TransientError("A task lost its worker")
        return [report(request) for request in group.requests]

    return read


def state(one: TableCopy) -> dict[str, TableState]:
    """A table as the ledger holds it."""
    return {one.table.full_name: TableState({}, {}, one.coverage)}


def until_idle(run: Copies, *tables: TableCopy) -> list[dict[str, list[int]]]:
    """Read until nothing is left, without waiting for pauses; returns the groups that were read."""
    groups = []
    for _ in range(200):
        for one in tables:
            one.resting = dict.fromkeys(one.resting, 0.0)
        groups += run.assign()
        run.settle()
        if run.snapshot.idle:
            return groups
    raise AssertionError("it never ends")


def test_a_chunk_that_fails_waits_alone_and_is_parked(tmp_path: Path) -> None:
    """After eight tries with growing pauses, alone in its group; the others are read meanwhile."""
    one = table()
    with copies(tmp_path, one, answer=poisoned(5)) as run:
        groups = until_idle(run, one)
        assert [group["t"] for group in groups if 5 in group["t"]][1:] == [[5]] * 7
        failures = run.events("chunk.failed")
        assert [(e["chunks"], e["attempt"]) for e in failures] == [([5], n) for n in range(1, 9)]
        assert [e["retry_in_s"] for e in failures] == [1, 2, 4, 8, 16, 30, 30, None]
        assert {n for n, state in one.states.items() if state == "finished"} == set(PENDING) - {5}
        assert (one.states[5], one.failures, one.retry_at) == ("parked", 0, 0.0)
        (parked,) = run.events("chunk.parked")
        assert (parked["chunk"], parked["lower"], parked["attempts"], parked["message"]) == (5, "5", 8, "no 5")
        assert [p.chunk for p in read_parked(Directory(tmp_path))] == [5]


def test_a_parked_chunk_is_tried_again_when_its_table_is_resumed(tmp_path: Path) -> None:
    """As often as any other; when it is read, it is no longer parked.

    Two requests count as one, other tables' not at all.
    """
    one = table()
    with copies(tmp_path, one, answer=poisoned(5)) as run:
        until_idle(run, one)
        parking = run.parking
        parking.request_retry(["d.other"])
        assert run.assign() == []
        parking.request_retry(["d.t"])
        parking.request_retry(None)
        assert run.assign() == [{"t": [5]}]
        run.settle()
        assert run.events("chunk.failed")[-1]["attempt"] == 1
        run.answer, one.resting = poisoned(), {5: 0.0}
        run.assign()
        run.settle()
        assert [(e["chunk"], e["reason"], e["parked"]) for e in run.events("chunk.unparked")] == [(5, "it was read", 0)]
        assert not parking.of("d.t")
        assert one.states[5] == "finished"
        parking.require_none(state(one))


def test_the_next_run_tries_a_parked_chunk_once(tmp_path: Path) -> None:
    """Then it is parked again, with its first time; a chunk with other bounds is another chunk."""
    one, again, replanned = table(), table(), table_copy("t", 12, coverage=Coverage(pending={5: Range(("5",), ("9",))}))
    with copies(tmp_path, one, answer=poisoned(5)) as run:
        until_idle(run, one)
    with copies(tmp_path, again, answer=poisoned(5)) as run:
        until_idle(run, again)
        first, second = run.events("chunk.parked")
        assert (first["attempts"], second["attempts"], second["since"]) == (8, 9, first["since"])
        with pytest.raises(ChunksParkedError, match=r"d\.t chunk 5 \[5, 6\)\. no 5") as raised:
            run.parking.require_none(state(again))
        assert "resume SPEC --table d.t" in raised.value.hint
    with copies(tmp_path, replanned, answer=poisoned()) as run:
        assert run.events("chunk.unparked")[0]["reason"] == "the table is split again"
        assert not read_parked(Directory(tmp_path))


def test_what_killed_a_reader_is_found(tmp_path: Path) -> None:
    """By halving its group until it is alone; the others of the group are not blamed."""
    one = table()
    with copies(tmp_path, one, readers=1, answer=deadly(4)) as run:
        groups = [group["t"] for group in until_idle(run, one) if 4 in group["t"]]
        sizes = [len(group) for group in groups]
        assert sizes[0] > 2
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-8:] == [1] * 8
        assert all(after <= max(1, before // 2) for before, after in pairwise(sizes))
        assert [e["chunk"] for e in run.events("chunk.parked")] == [4]
        assert {n for n, state in one.states.items() if state == "finished"} == set(PENDING) - {4}


def test_small_tables_that_lost_their_reader_are_read_apart(tmp_path: Path) -> None:
    """One of ten tables kills its readers: only that one is parked."""
    tables = [table_copy(f"t{n}", 1, "one") for n in range(10)]

    def read(group: ChunkGroup) -> list[ReaderReport]:
        if any(request.table.name == "t3" for request in group.requests):
            raise TransientError("A task lost its worker")
        return [report(request) for request in group.requests]

    with copies(tmp_path, *tables, readers=1, answer=read) as run:
        until_idle(run, *tables)
        assert [(e["table"], e["chunk"]) for e in run.events("chunk.parked")] == [("d.t3", 0)]
        assert {e["table"] for e in run.events("chunk.finished")} == {f"d.t{n}" for n in range(10)} - {"d.t3"}


def test_a_table_that_is_at_fault_itself_is_left_alone(tmp_path: Path) -> None:
    """After several parked chunks its rest is not tried. Others continue, and a resume tries everything again."""
    bad, good = table("bad"), table("good")

    def read(group: ChunkGroup) -> list[ReaderReport]:
        first = group.requests[0]
        return poisoned(*PENDING)(group) if first.table.name == "bad" else [report(r) for r in group.requests]

    with copies(tmp_path, bad, good, answer=read) as run:
        until_idle(run, bad, good)
        assert PARKED_IN_ROW <= len(bad.parked) < 12
        assert {e["table"] for e in run.events("chunk.finished")} == {"d.good"}
        assert len(run.events("chunk.finished")) == 12
        run.assign()
        assert run.activity.waiting_for == "too many parked chunks of d.bad"
        run.answer = poisoned()
        run.parking.request_retry(None)
        until_idle(run, bad, good)
        assert len(run.events("chunk.finished")) == 24


def test_what_is_read_for_long_is_shown(tmp_path: Path) -> None:
    """For each table, the group that was started first."""
    one = table()
    with copies(tmp_path, one, readers=1) as run:
        first, _ = run.assign()
        reading = run.activity.reading
        assert reading["d.t"]["chunks"] == first["t"]
        run.settle()
        assert run.activity.reading == {}


def test_rows_read_so_far_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all readers of the table; their files are deleted with the groups."""
    monkeypatch.setattr(scheduler, "_SHOW_S", 0.0)
    with copies(tmp_path, table(), readers=1) as run:
        group = replace(GROUP, counts=tmp_path / "counts")
        for _ in range(4):
            run.snapshot.assign(group)
            run.split()
        files = [job.counts for job in run.snapshot._jobs.values() if job.counts]
        for file in files:
            RowCounter(file, "d.t", 0, count(0.0, 2.0).__next__).add(700)
        run.snapshot.assign(group)
        assert run.activity.reading["d.t"]["rows"] == 700 * len(files) > 700
        run.settle()
        assert list((tmp_path / "counts").iterdir()) == []


def test_what_is_parked_of_a_table_that_stopped_or_is_gone_holds_up_nothing(tmp_path: Path) -> None:
    """A bounded run then fails for another reason, or not at all."""
    one = table()
    with copies(tmp_path, one, answer=poisoned(5)) as run:
        until_idle(run, one)
        parking = run.parking
        known = state(one)
        assert [p.chunk for p in parking.pending(known)] == [5]
        parking.require_none({})
        parking.require_none({"d.t": replace(known["d.t"], stopped=TidemarkError("no").to_record())})
        parking.require_none({"d.t": replace(known["d.t"], coverage=one.coverage.finish([5]))})
        parking.keep_only({"d.t"})
        assert parking.of("d.t")
        parking.keep_only(())
        assert run.events("chunk.unparked")[0]["reason"] == "the table is no longer captured"


def test_a_file_that_says_nothing_is_as_good_as_none(tmp_path: Path) -> None:
    """Its chunks are tried like any others."""
    (tmp_path / "parked.json").write_text("[{]")
    journal = Journal(tmp_path / "j.jsonl", "r")
    assert not Parking(Directory(tmp_path), journal).of("d.t")
    journal.close()


def test_an_error_of_a_redump_names_its_table(tmp_path: Path) -> None:
    """A chunk of a redump has no event of its own that would."""
    with copies(
        tmp_path, table_copy("t", 12, coverage=Coverage(pending=PENDING), redump="c"), answer=poisoned(5)
    ) as run:
        run.assign()
        run.settle()
        assert {(one["table"], one["message"]) for one in run.events("error")} == {("d.t", "no 5")}
