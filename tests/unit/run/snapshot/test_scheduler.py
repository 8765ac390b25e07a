"""The scheduler of the snapshot: which chunk is read next, what is split and journalled, and how failures end."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.base import clock
from engine.base.errors import (
    LedgerError,
    LoginRefusedError,
    SchemaChangedError,
    SparkLostError,
    TableStoppedError,
    TransientError,
)
from engine.base.wording import utc_time
from engine.capture.files import DataFile
from engine.capture.reports import ReaderReport
from engine.capture.tasks import ChunkGroup
from engine.pipeline.state_machines import IllegalEventError
from engine.plan.chunks import WHOLE, Range
from engine.plan.coverage import Chunk, Coverage, Unsplit
from engine.run.snapshot.scheduler import AHEAD
from engine.spec.throttle_settings import Throttle
from tests.unit.run.snapshot.copies import GROUP, copies, failure, pending_table, read_all, report, table_copy


def losing(group: ChunkGroup) -> list[ReaderReport]:
    """A reader that has lost its connection and gets no other."""
    return [failure(group.requests[0], TransientError("lost"))]


def refused(group: ChunkGroup) -> list[ReaderReport]:
    """A reader whose login is refused."""
    return [failure(group.requests[0], LoginRefusedError("no"))]


def changing(group: ChunkGroup) -> list[ReaderReport]:
    """A reader that misses a column."""
    return [failure(group.requests[0], SchemaChangedError("gone"))]


def test_readers_that_fail_together_are_one_failure(tmp_path: Path) -> None:
    """Nine groups lose the server at once: that is one attempt of eight, and the run continues."""
    table = table_copy("t", 16)
    with copies(tmp_path, table, readers=8, answer=losing) as run:
        assert len(run.assign()) == 9
        run.settle()
        assert table.failures == 1
        assert [chunk.number for chunk in sorted(table.waiting, key=lambda c: c.number)] == list(range(16))
        assert run.assign() == []  # not before the pause is over
        assert [event["attempt"] for event in run.events("chunk.failed")] == [1] * 9


def test_a_table_waits_for_as_long_as_the_source_is_away(tmp_path: Path) -> None:
    """With growing pauses, without a limit; a successful read resets them."""
    table = table_copy("t", 1, "one")
    with copies(tmp_path, table, answer=losing) as run:
        for n in range(30):
            table.failures += 1000 * (n == 29)  # half a day
            table.retry_at = 0.0
            assert len(run.assign()) == 1
            run.settle()
        pauses = [event["retry_in_s"] for event in run.events("chunk.failed")]
        assert pauses == [1, 2, 4, 8, 16, *[30] * 25]
    again = table_copy("t", 2, failures=7)
    with copies(tmp_path, again) as run:
        run.assign()
        run.settle()
        assert again.failures == 0


def test_a_table_that_goes_on_changing_stops_the_8th_time(tmp_path: Path) -> None:
    """The binlog contains no schema change."""
    table = table_copy("t", 1, "one")
    batches = []
    with copies(tmp_path, table, answer=changing) as run:
        for _ in range(8):
            table.retry_at = 0.0
            run.assign()
            run.snapshot.binlog_read(math.inf)
            batches.append(run.settle())
        assert list(batches[-1].stopped) == ["d.t"]


def test_a_login_that_is_refused_for_minutes_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After five minutes; a proxy may refuse for a moment."""
    table, now = table_copy("t", 1, "one"), [1000.0]
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now[0])
    with copies(tmp_path, table, answer=refused) as run:
        for _ in range(10):
            now[0] += 30.0
            run.assign()
            run.settle()
        now[0] += 30.0
        run.assign()
        with pytest.raises(LoginRefusedError):
            run.settle()


def test_readers_that_join_get_work(tmp_path: Path) -> None:
    """There is one group more than readers, whatever their number is now."""
    with copies(tmp_path, table_copy("t", 64), readers=2) as run:
        assert len(run.assign()) == 3
        run.readers = 5
        assert len(run.assign()) == 3
        run.readers = 1
        assert run.assign() == []


def test_an_error_that_no_other_try_cures_ends_the_run(tmp_path: Path) -> None:
    """At once."""

    def wrong(group: ChunkGroup) -> list[ReaderReport]:
        return [failure(group.requests[0], LedgerError("wrong"))]

    with copies(tmp_path, table_copy("t", 1, "one"), answer=wrong) as run:
        run.assign()
        with pytest.raises(LedgerError, match="wrong"):
            run.settle()


def test_a_dropped_table_is_not_queued_again(tmp_path: Path) -> None:
    """Its unfinished chunks are forgotten when the table returns."""
    with copies(tmp_path, table_copy("t", 16), readers=8, answer=losing) as run:
        run.assign()
        run.snapshot.drop("d.t")
        run.snapshot.drop("d.not_there")
        assert run.snapshot.reading("d.t"), "in vain"
        run.settle()
        assert not run.snapshot.reading("d.t")
        assert run.snapshot.idle
        assert run.assign() == []
        assert run.events("chunk.failed") == []


def test_small_tables_share_a_group(tmp_path: Path) -> None:
    """Forty groups would be forty jobs; groups of a quarter keep two readers busy to the end."""
    tables = [table_copy(f"t{n}", 1, "one") for n in range(40)]
    with copies(tmp_path, *tables, readers=2) as run:
        groups = run.assign()
        assert [len(group) for group in groups] == [10, 7, 5]
        assert len(run.settle().finished) == 22
        while groups := run.assign():
            run.settle()
        assert run.snapshot.idle or all(not table.waiting for table in tables)
        assert {event["table"] for event in run.events("chunk.finished")} == {f"d.t{n}" for n in range(40)}


def test_a_group_is_worth_about_a_second(tmp_path: Path) -> None:
    """Tables of a third of a second each are grouped by three or four, however many there are."""
    tables = [table_copy(f"t{n}", 1, "one", seconds=0.3, read=1) for n in range(40)]
    with copies(tmp_path, *tables, readers=1) as run:
        assert [len(group) for group in run.assign()] == [4, 4]


def test_the_chunks_of_a_large_table_are_shared(tmp_path: Path) -> None:
    """A second of work per group, and smaller groups towards the end, so that all readers end together."""
    table = table_copy("t", 16)
    with copies(tmp_path, table, readers=4) as run:
        assert [group["t"] for group in run.assign()] == [[0], [1], [2], [3], [4]]
        run.commit(run.settle())
        assert run.coverage("t").finished == ((0, 4),)
        run.assign()
        assert table.under_way == len(run.events("chunk.assigned")) - 5
    many = table_copy("t", 200, coverage=Coverage(pending={n: Range() for n in range(200)}))
    with copies(tmp_path, many, readers=4) as run:
        assert [len(group["t"]) for group in run.assign()] == [4] * 5  # about a quarter of a second each, by their rows
        run.settle()
        assert many.chunk_s == pytest.approx(0.2)
        assert [len(group["t"]) for group in run.assign()] == [5] * 5


def test_whose_turn_it_is(tmp_path: Path) -> None:
    """First by priority, then the table with the fewest chunks in progress, then the one with the most left."""
    tables = [table_copy("late", 900, rank=1), table_copy("small", 30), table_copy("large", 300)]
    with copies(tmp_path, *tables, readers=3) as run:
        assert [next(iter(group)) for group in run.assign()] == ["large", "small", "late", "large"]  # each first chunk
        run.settle()
        assert [next(iter(group)) for group in run.assign()] == ["large", "small", "small", "large"]
    first, second = table_copy("b", 1, "one", rank=1), table_copy("a", 1, "one", rank=0)
    with copies(tmp_path, first, second, readers=1) as run:
        run.snapshot.assign(GROUP)
        run.split()
        assert run.assign() == [{"a": [0]}, {"b": [0]}]


def test_a_stopped_table_does_not_stop_the_others_of_its_group(tmp_path: Path) -> None:
    """Their chunks finish; its own pending chunks are forgotten."""

    def stopping(group: ChunkGroup) -> list[ReaderReport]:
        stop = TableStoppedError("no")
        return [failure(r, stop) if r.table.name == "t1" else report(r) for r in group.requests]

    tables = [table_copy(f"t{n}", 1, "one") for n in range(20)]
    with copies(tmp_path, *tables, readers=1, answer=stopping) as run:
        first, second = run.assign()
        assert "t1" in first
        batch = run.settle()
        assert list(batch.stopped) == ["d.t1"]
        assert {f.table for f in batch.finished} == {f"d.{name}" for name in {**first, **second}} - {"d.t1"}
        assert tables[1].dropped
        (failed,) = run.events("chunk.failed")
        assert (failed["table"], failed["chunks"], failed["retry_in_s"]) == ("d.t1", [0], None)


def test_unread_chunks_are_put_back(tmp_path: Path) -> None:
    """Chunks behind an error, of the failed table and others, return to the front in their order."""

    def second_fails(group: ChunkGroup) -> list[ReaderReport]:
        done, failed, *_ = group.requests
        return [report(done), failure(failed, TransientError("lost"))]

    table = pending_table("t", 40)
    with copies(tmp_path, table, readers=1, answer=second_fails) as run:
        (one, other) = run.assign()
        batch = run.settle()
        read = {one["t"][0], other["t"][0]}
        assert {f.report.chunk for f in batch.finished} == read
        left = [chunk.number for chunk in table.waiting]
        assert sorted(left) == [n for n in range(40) if n not in read]
        for group in (one["t"], other["t"]):
            assert [n for n in left if n in group] == group[1:]
        assert set(left[: len(one["t"]) + len(other["t"]) - 2]) == set(one["t"] + other["t"]) - read
        assert table.under_way == 0
        failed = sorted(e["chunks"] for e in run.events("chunk.failed"))  # whichever job ended first
        assert failed == sorted([one["t"][1:], other["t"][1:]])
        assert {table.states[n] for n in one["t"][1:] + other["t"][1:]} == {"failed"}
        assert {table.states[n] for n in read} == {"finished"}
    tables = [table_copy(f"t{n}", 1, "one") for n in range(8)]
    with copies(tmp_path, *tables, readers=1, answer=second_fails) as run:
        groups = run.assign()
        run.settle()
        first = {next(iter(group)) for group in groups}
        second = {list(group)[1] for group in groups}
        for t in tables:
            expected = [] if t.table.name in first else [Chunk(0, WHOLE)]
            assert (list(t.waiting), t.failures) == (expected, int(t.table.name in second))


def test_the_rest_of_a_shortened_chunk_is_split(tmp_path: Path) -> None:
    """A chunk that had grown was read to a nearer bound: this is journalled, and a walk splits the rest."""

    def nearer(group: ChunkGroup) -> list[ReaderReport]:
        limits = {0: Range(None, ("3",))}
        return [report(r, limits=limits.get(r.number, r.limits)) for r in group.requests]

    with copies(tmp_path, table_copy("t", 1, "one"), answer=nearer) as run:
        run.assign()
        assert run.journalled() == []
        batch = run.settle()
        assert batch.finished[0].limits == Range(None, ("3",))
        assert run.journalled() == [("t", [[0, None, "3"]], False)]
        assert run.coverage("t").unsplit == (Unsplit(1, Range(("3",), None), "walk", 0),)
        assert run.snapshot.new_chunks() == {"d.t": [Chunk(0, Range(None, ("3",)))]}
        assert not run.snapshot.idle
        run.commit(batch)
        assert run.snapshot.new_chunks() == {}
        run.splitter.ends["d.t"] = 8
        assert run.assign() == [{"t": [1]}]
        assert run.journalled()[1:] == [("t", [[1, "3", None]], True)]
        run.commit(run.settle())
        assert run.coverage("t").copied
        assert run.snapshot.idle


def test_a_listed_plan_is_not_journalled_again(tmp_path: Path) -> None:
    """`table.planned` lists all chunks of an even plan: splitting them adds nothing."""
    with copies(tmp_path, table_copy("t", 30), table_copy("u", 1, "one")) as run:
        while run.assign():
            run.commit(run.settle())
        assert run.coverage("t").copied
        assert run.coverage("u").copied
        assert run.journalled() == []


def test_a_split_of_a_listed_plan_is_journalled(tmp_path: Path) -> None:
    """The chunk gets a nearer bound, its other parts new numbers; then everything is known again."""

    def dense(group: ChunkGroup) -> list[ReaderReport]:
        limits = {2: Range(("20",), ("22",))}
        return [report(r, limits=limits.get(r.number, r.limits)) for r in group.requests]

    with copies(tmp_path, table_copy("t", 4), answer=dense) as run:
        while run.assign():
            run.commit(run.settle())
        assert run.coverage("t").copied
        assert run.coverage("t").finished == ((0, 5),)
        assert run.journalled() == [("t", [[2, "20", "22"]], False), ("t", [[4, "22", "27"], [5, "27", "30"]], True)]
        assert [event["parent"] for event in run.events("chunk.planned")] == [None, 2]


def test_a_walk_is_journalled_as_it_goes(tmp_path: Path) -> None:
    """The first chunk at once and alone, so that a reader can start; the last event says that no more follow."""
    with copies(tmp_path, table_copy("t", 9, "uneven")) as run:
        run.splitter.ends["d.t"] = 20
        run.assign()
        first, second = run.journalled()
        assert first == ("t", [[0, None, "5"]], False)
        assert second == ("t", [[1, "5", "10"], [2, "10", "15"], [3, "15", None]], True)
        assert run.splitter.asked[0][2] == 1


def test_a_plan_of_very_many_chunks_is_journalled_as_it_goes(tmp_path: Path) -> None:
    """More than are listed; a bounded number is split ahead, and more when half of those are assigned."""
    table = table_copy("t", 10_001)
    with copies(tmp_path, table, readers=1) as run:
        run.assign()
        assert len(table.waiting) <= AHEAD
        numbers = [number for _, chunks, _ in run.journalled() for number, _, _ in chunks]
        assert numbers == sorted(run.coverage("t").pending) == list(range(len(numbers)))
        assert not any(complete for _, _, complete in run.journalled())
        asked = len(run.splitter.asked)
        run.assign()
        assert len(run.splitter.asked) == asked
        for _ in range(AHEAD):
            run.commit(run.settle())
            run.assign()
            if len(run.splitter.asked) > asked:
                break
        assert len(table.waiting) > AHEAD // 2


def test_chunks_of_an_earlier_run_are_journalled_again(tmp_path: Path) -> None:
    """It may have been killed between commit and journal."""
    coverage = Coverage(
        (Range(None, ("5",)),), ((0, 0),), {1: Range(("5",), ("9",))}, (Unsplit(2, Range(("9",), None), "walk"),), 3
    )
    with copies(tmp_path, table_copy("t", 9, "uneven", coverage=coverage), table_copy("e", 5)) as run:
        assert run.journalled() == [("t", [[1, "5", "9"]], False)]
        assert run.snapshot.new_chunks() == {}


def test_a_splitter_that_loses_the_source_tries_again(tmp_path: Path) -> None:
    """After a pause, like a reader."""
    table = table_copy("t", 9, "uneven")
    with copies(tmp_path, table) as run:
        run.splitter.errors["d.t"] = TransientError("lost")
        assert run.assign() == []
        assert len(run.splitter.asked) == 1
        assert table.failures == 1
        table.retry_at = 0.0
        assert run.assign()
        assert table.failures == 0


def test_a_table_that_cannot_be_split_stops(tmp_path: Path) -> None:
    """With the reason; the others continue."""
    with copies(tmp_path, table_copy("t", 9, "uneven"), table_copy("u", 1, "one")) as run:
        run.splitter.errors["d.t"] = TableStoppedError("a date that does not exist")
        run.snapshot.assign(GROUP)
        batch = run.snapshot.collect()
        assert {name: error.message for name, error in batch.stopped.items()} == {"d.t": "a date that does not exist"}
        assert run.assign() == [{"u": [0]}]
        run.commit(run.settle())
        assert run.snapshot.idle


def test_what_is_unknown_has_no_coverage(tmp_path: Path) -> None:
    """Only the ledger knows a table that is not in the snapshot."""
    with copies(tmp_path, answer=read_all) as run:
        assert run.snapshot.coverage("d.x") is None
        assert run.snapshot.idle
        assert run.assign() == []


def test_a_chunk_goes_through_its_states_and_no_others(tmp_path: Path) -> None:
    """An unread chunk never counts as committed; committed and dropped chunks are forgotten."""
    table = table_copy("t", 4, coverage=Coverage(pending={n: Range((str(n),), (str(n + 1),)) for n in range(4)}))
    with copies(tmp_path, table, readers=1) as run:
        assert set(table.states.values()) == {"waiting"}
        groups = run.assign()
        assert {table.states[n] for group in groups for n in group["t"]} == {"reading"}
        run.commit(run.settle())
        assert set(table.states) == set(run.coverage("t").pending)
        left = run.coverage("t")
        assert left.pending
        with pytest.raises(IllegalEventError, match="'committed' is not possible while the chunk is waiting"):
            run.snapshot.note_commit("d.t", left.finish(left.pending))
        run.snapshot.drop("d.t")
        assert table.states == {}
        run.snapshot.note_commit("d.t", left)


def test_shares_of_a_rate_are_handed_out(tmp_path: Path) -> None:
    """Readers share the rate; one slot of four stays free for the binlog; the last chunk gets all of the rate."""
    groups = list[ChunkGroup]()

    def answer(group: ChunkGroup) -> list[ReaderReport]:
        groups.append(group)
        return read_all(group)

    with copies(tmp_path, table_copy("t", 4), readers=4, answer=answer) as run:
        run.pace.settings = Throttle(max_rows_per_s=3000)
        assert len(run.assign()) == 3
        run.settle()
        assert [round(request.rows_per_s) for group in groups for request in group.requests] == [1000] * 3
        assert len(run.assign()) == 1
        run.settle()
        assert round(groups[-1].requests[0].rows_per_s) == 3000


def test_a_lost_session_gives_its_shares_back(tmp_path: Path) -> None:
    """The pace outlives the scheduler of a session: otherwise no chunk would ever be read again."""

    def lost(_group: ChunkGroup) -> list[ReaderReport]:
        raise SparkLostError("Spark is gone.")

    with copies(tmp_path, table_copy("t", 4), readers=4, answer=lost) as run:
        run.pace.settings, pace = Throttle(max_rows_per_s=3000), run.pace
        assert len(run.assign()) == 3
        with pytest.raises(SparkLostError):
            run.settle()
    assert round(pace.take_share(1, clock.monotonic_s()).rows_per_s) == 3000


def test_a_rate_that_is_leased_is_the_reason_to_wait(tmp_path: Path) -> None:
    """While a throttled chunk is read, the status says why the others wait."""
    noon = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    with copies(tmp_path, table_copy("t", 4)) as run:
        run.pace.settings = Throttle(max_rows_per_s=3000)
        run.assign()
        run.snapshot.assign(GROUP, lambda: run.pace.wait(clock.monotonic_s(), noon))
        assert run.activity.waiting_for == "at most 3,000 rows/s"
        run.settle()


def test_shares_of_an_ended_session_are_free_again(tmp_path: Path) -> None:
    """The next session of the run starts with the whole rate."""
    with copies(tmp_path, table_copy("t", 4)) as run:
        run.pace.settings = Throttle(max_bytes_per_s=3000)
        run.assign()
        pace = run.pace
    assert pace.take_share(1, clock.monotonic_s()).bytes_per_s == 3000


def test_bytes_become_rows_by_the_size_of_rows(tmp_path: Path) -> None:
    """By the server's estimate until files of the table show their real size."""
    table = table_copy("t", 4)
    table.plan = replace(table.plan, approx_bytes=100 * table.plan.approx_rows)
    assert table.row_bytes == 100
    with copies(
        tmp_path, table, answer=lambda g: [report(r, files=(DataFile("f", 10, 70),)) for r in g.requests]
    ) as run:
        run.assign()
        run.settle()
    assert table.row_bytes == 7


def test_with_one_reader_and_a_rate_tables_take_turns(tmp_path: Path) -> None:
    """A small table does not wait until a large one is copied."""
    with copies(tmp_path, table_copy("large", 9), table_copy("small", 2, rows=10), readers=1) as run:
        run.pace.settings = Throttle(max_rows_per_s=3000)
        order = []
        for _ in range(4):
            order += [name for group in run.assign() for name in group]
            run.settle()
        assert order == ["large", "small", "large", "small"]


def test_a_copy_that_begins_later_says_when_and_is_unread_until_then(tmp_path: Path) -> None:
    """A statement on it needs no other resnapshot until its first chunk is given to a reader."""
    table, other = table_copy("t", 4), table_copy("u", 4)
    with copies(tmp_path, other) as run:
        run.snapshot.add(table, 3600.0)
        assert {name for group in run.assign() for name in group} == {"u"}
        assert (run.snapshot.unread("d.t"), run.snapshot.unread("d.u"), run.snapshot.unread("d.v")) == (
            True,
            False,
            False,
        )
        while run.snapshot.under_way:
            run.settle()
            run.assign()
        assert run.activity.waiting_for.startswith(f"the copy of d.t begins at {utc_time(table.begins)}")
        assert not run.snapshot.idle
        table.retry_at = 0.0
        run.assign()
        assert not run.snapshot.unread("d.t")


def test_a_copy_that_an_earlier_run_began_is_not_unread(tmp_path: Path) -> None:
    """Nor are a dropped one and redumped parts."""
    begun = table_copy("t", 4, coverage=Coverage(finished=((0, 0),), pending={1: Range(("10",), ("20",))}))
    with copies(tmp_path, begun, table_copy("u", 4), table_copy("v", 4, redump="c")) as run:
        run.snapshot.drop("d.u")
        assert not any(run.snapshot.unread(f"d.{name}") for name in "tuv")
