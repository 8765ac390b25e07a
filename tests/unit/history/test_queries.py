"""Each query answers from the journals what happened in the simulated runs."""

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.history import History, runs, series, table_counts
from engine.history import chunk_queries as chunks
from engine.history import event_queries as log
from engine.history import maintenance_queries as maintenance
from engine.history import table_queries as tables
from engine.history.fetch import Cursor
from engine.history.redumps import redumps
from engine.journal import Journal
from engine.journal.events import RunStarted, TableResumed
from engine.pipeline.directory import Directory
from engine.run.commands.inbox import Command
from tests.support.entries import event
from tests.support.simulation import SimulatedTable, Simulation

START = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
ORDERS = SimulatedTable("shop.orders", 400_000, 40)
COUNTRIES = SimulatedTable("shop.countries", 250, 1, None)


def indexed(*simulations: Simulation) -> Cursor:
    """A cursor on an index over the journals of these runs."""
    index = History(None)
    index.refresh({simulation.directory for simulation in simulations})
    return index.cursor()


def counted_tables(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The tables of each count from now on."""
    counted, count = list[list[str]](), table_counts._counted

    def counting(cursor: Cursor, pipeline: str, names: Collection[str]) -> dict[str, table_counts.Count]:
        counted.append(sorted(names))
        return count(cursor, pipeline, names)

    monkeypatch.setattr(table_counts, "_counted", counting)
    return counted


@pytest.fixture
def half(tmp_path: Path) -> Simulation:
    """A run in the middle of its copy."""
    return Simulation(tmp_path / "shop", [ORDERS, COUNTRIES], start=START).advance(4)


def test_progress_counts_each_chunk_once(half: Simulation) -> None:
    """Waiting, reading, failed, finished and published chunks add up to the plan."""
    found = {one.table: one for one in tables.progress(indexed(half), "shop")}
    orders = found["shop.orders"]
    assert orders.chunks == 40
    assert orders.waiting + orders.reading + orders.failed + orders.finished + orders.published == 40
    assert 0 < orders.done < 40
    assert orders.done == half.finished
    assert abs(orders.rows - orders.done * 10_000) < 50 * orders.done
    assert found["shop.countries"].done == 0


def test_kept_progress_is_that_of_the_journals_at_every_instant(tmp_path: Path) -> None:
    """While tables are copied, settle, stop and are removed; the parts that an index keeps are never outdated."""
    growing = SimulatedTable("shop.items", 40_000, 40, None, estimated_chunks=30, split_each=5)
    run = Simulation(tmp_path / "shop", [ORDERS, COUNTRIES, growing], start=START)
    index, seen, whole = History(None), set[str | None](), dict[str, tables.TableProgress]()
    for n in range(40):
        run.advance(0.5)
        if n == 36:
            run.write("table.state", table="shop.countries", state="removed", reason=None)
            run.write("table.state", table="shop.items", state="stopped", reason="a column was dropped")
        index.refresh([run.directory])
        kept = index.ask(tables.progress, "shop")
        assert kept == tables.progress(indexed(run), "shop")
        whole = {one.table: one for one in kept}
        for one in whole.values():
            states = chunks.chunk_states(index.cursor(), "shop", one.table)
            if one.state != "removed":
                assert (one.chunks, one.done) == (
                    len(states),
                    sum(s.state in ("finished", "published") for s in states),
                )
        seen |= {one.state for one in kept}
    assert seen >= {"copying", "streaming", "stopped", "removed"}
    assert index.ask(tables.stopped, "shop") == ["shop.items"]
    assert whole["shop.items"].reason == "a column was dropped"


def test_once_copied_a_commit_recounts_no_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5 000 tables, counting takes a tenth of a second, and commits come every few seconds."""
    run = Simulation(tmp_path / "shop", [COUNTRIES], start=START).advance(20)
    index, counted = History(None), counted_tables(monkeypatch)
    for _ in range(3):
        index.refresh([run.directory])
        (one,) = index.ask(tables.progress, "shop")
        assert one.state == "streaming"
        run.now += timedelta(seconds=1)
        run.write("epoch.committed", epoch=10_000, to_position="bin.000009:9", changes=3, tables={"shop.countries": 3})
    assert counted == [["shop.countries"]]
    index.refresh([run.directory])
    (one,) = index.ask(tables.progress, "shop")
    assert one.last_change_s == run.now.timestamp()
    run.now += timedelta(seconds=1)
    run.write("epoch.committed", epoch=10_001, to_position="bin.000009:9", changes=0, tables={"shop.countries": 0})
    index.refresh([run.directory])
    (one,) = index.ask(tables.progress, "shop")
    assert one.last_change_s == run.now.timestamp() - 1


def test_only_tables_with_news_are_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own lines, an epoch that may publish their reads, another run, or a journal that was replaced."""
    run = Simulation(tmp_path / "shop", [ORDERS, COUNTRIES], start=START).advance(2)
    index, counted = History(None), counted_tables(monkeypatch)

    def progress() -> list[tables.TableProgress]:
        counted.clear()
        index.refresh([run.directory])
        kept = index.ask(tables.progress, "shop")
        assert kept == tables.progress(indexed(run), "shop")
        counted.pop()  # those of the other index
        return kept

    assert [one.state for one in progress()] == ["copying", "copying"]
    assert counted == [["shop.countries", "shop.orders"]]
    run.write("chunk.assigned", chunks=[0], table="shop.countries", group="g")
    progress()
    assert "shop.countries" in counted[0]
    run.write("epoch.committed", epoch=10_000, to_position="bin.999999:9", changes=0, tables={})
    progress()
    assert counted == [["shop.orders"]], "the other one has no reads"
    (journal,) = run.directory.journals.glob("*.jsonl")
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:20]))
    assert len(progress()) == 2


def test_a_dead_runs_unpublished_chunks_are_waiting_again(half: Simulation, tmp_path: Path) -> None:
    """Only committed chunks survive a crash, and only their rows count."""
    half.advance(0.5)
    assert half.unpublished
    states = chunks.chunk_states(indexed(half), "shop", "shop.orders")
    before = {s.chunk for s in states if s.state == "published"}
    assert before == {number for _, number in half.committed}
    assert {s.chunk for s in states if s.state == "finished"} == {number for _, number, _ in half.unpublished}
    start = half.now + timedelta(seconds=9)
    later = Simulation(half.directory.root, [ORDERS, COUNTRIES], run="second", start=start, resume=half)
    states = chunks.chunk_states(indexed(half, later), "shop", "shop.orders")
    assert {s.chunk for s in states if s.state == "published"} == before
    assert {s.state for s in states if s.chunk not in before} == {"waiting"}
    later.advance(60)
    assert {s.state for s in chunks.chunk_states(indexed(half, later), "shop", "shop.orders")} == {"published"}


def test_what_a_later_run_finds_committed_is_published(half: Simulation) -> None:
    """A killed runner may have committed an epoch without journalling it; the next run journals it."""
    half.advance(0.5)
    lost = {number for _, number, _ in half.unpublished}
    assert lost
    run = "zz-later"
    journal = Journal(half.directory.journal(run), run)
    journal.write(RunStarted(pipeline="shop", host="h", pid=1, version="0", until=None, spec={}, format=1))
    journal.write(TableResumed(table="shop.orders", chunks=[[number, number] for number in sorted(lost)]))
    journal.close()
    states = chunks.chunk_states(indexed(half), "shop", "shop.orders")
    committed = {number for table, number in half.committed if table == "shop.orders"}
    assert {s.chunk for s in states if s.state == "published"} == committed | lost


@pytest.mark.parametrize("table", [ORDERS, SimulatedTable("shop.orders", 400_000, 25)])
def test_results_of_an_old_plan_do_not_fill_a_new_one(half: Simulation, table: SimulatedTable) -> None:
    """A resnapshotted table starts from zero, even with the same bounds."""
    half.advance(60)
    assert half.phase == "streaming"
    again = Simulation(half.directory.root, [table], run="second", start=half.now + timedelta(seconds=9))
    states = chunks.chunk_states(indexed(half, again), "shop", "shop.orders")
    assert len(states) == table.chunks
    assert {s.state for s in states} == {"waiting"}


def test_a_lost_last_line_does_not_leave_chunks_behind(half: Simulation) -> None:
    """A run killed between ledger and journal lacks its last epoch's line; a streaming table is fully published."""
    journal = half.advance(60).journal.path
    lines = journal.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if '"chunk.finished"' in line)
    journal.write_text("".join(lines[: last + 1]))
    start = half.now + timedelta(seconds=9)
    again = Simulation(half.directory.root, [ORDERS, COUNTRIES], run="second", start=start, resume=half).advance(4)
    (found,) = (one for one in tables.progress(indexed(half, again), "shop") if one.table == "shop.orders")
    assert (found.state, found.published) == ("streaming", 40)


def test_a_stopped_table_keeps_its_reason(half: Simulation) -> None:
    """And its advice. Later lines about the state have none."""
    half.write("table.state", table="shop.countries", state="stopped", reason="no such column", hint="Restore it.")
    half.now += timedelta(seconds=1)
    half.write("table.state", table="shop.countries", state="stopped", reason=None)
    found = {one.table: (one.reason, one.hint) for one in tables.progress(indexed(half), "shop")}
    assert found == {"shop.orders": (None, None), "shop.countries": ("no such column", "Restore it.")}


def test_a_removed_table_is_no_part_of_the_copy(half: Simulation) -> None:
    """It is shown as removed, and its chunks are not waited for."""
    half.write("table.state", table="shop.orders", state="removed", reason=None)
    found = {one.table: one for one in tables.progress(indexed(half), "shop")}
    orders = found["shop.orders"]
    assert (orders.state, orders.chunks, orders.expected_chunks, orders.copied) == ("removed", 0, 0, True)
    assert not orders.planned
    assert found["shop.countries"].planned
    assert tables.captured(indexed(half), "shop") == ["shop.countries"]


def test_a_failed_chunk_is_failed_or_parked_until_it_is_assigned_again(tmp_path: Path) -> None:
    """The last event counts."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START)

    def state() -> str:
        return chunks.chunk_states(indexed(run), "shop", "shop.orders")[0].state

    assert state() == "waiting"
    run.write("chunk.assigned", table="shop.orders", chunks=[0], group="g")
    assert state() == "reading"
    run.now += timedelta(seconds=1)
    run.write(
        "chunk.failed", table="shop.orders", chunks=[0], group="g", error="E", message="lost", attempt=2, retry_in_s=4
    )
    assert state() == "failed"
    found = chunks.chunk(indexed(run), "shop", "shop.orders", 0)
    assert found is not None
    assert (found.error, found.retry_in_s, found.rows) == ("E: lost", 4.0, None)
    run.now += timedelta(seconds=1)
    run.write("chunk.parked", table="shop.orders", chunk=0, error="E", message="lost", attempts=8, parked=1)
    assert state() == "parked"
    run.now += timedelta(seconds=1)
    run.write("chunk.assigned", table="shop.orders", chunks=[0], group="g")
    assert state() == "reading"


def test_one_chunk_has_its_whole_history(half: Simulation) -> None:
    """Range, times, watermarks, backfill, file and epoch of a published chunk."""
    found = chunks.chunk(indexed(half), "shop", "shop.orders", 1)
    assert found is not None
    assert (found.state, found.lower, found.upper, found.attempt) == ("published", "10001", "20001", 0)
    assert found.epoch is not None
    assert found.started is not None
    assert found.started >= START
    assert found.low is not None
    assert found.backfill_changes == (found.backfill_deleted or 0) + (found.backfill_upserted or 0)
    assert chunks.chunk(indexed(half), "shop", "shop.orders", 99) is None


def test_reads_are_in_order_and_windows_widest_first(half: Simulation) -> None:
    """The reader timeline needs time order, the list of windows needs width order."""
    cursor = indexed(half)
    read = chunks.reads(cursor, "shop")
    assert [one.started for one in read] == sorted(one.started for one in read)
    assert len(chunks.reads(cursor, "shop", limit=3)) == 3
    gaps = [one.gap_bytes or 0 for one in chunks.windows(cursor, "shop", limit=10)]
    assert gaps == sorted(gaps, reverse=True)
    assert chunks.windows(cursor, "shop", table="shop.countries") == []


def test_reads_since_a_time_are_those_that_ended_then_or_later(half: Simulation) -> None:
    """A chart queries only what it shows."""
    cursor = indexed(half)
    ends = sorted(read.ended for read in chunks.reads(cursor, "shop"))
    later = chunks.reads(cursor, "shop", since=ends[5])
    assert sorted(read.ended for read in later) == [end for end in ends if end >= ends[5]]
    assert 0 < len(later) < len(ends)


def test_runs_say_how_they_ended(tmp_path: Path) -> None:
    """Newest first, with the error of the failed run."""
    first = Simulation(tmp_path / "shop", [ORDERS], run="a", start=START).advance(3)
    first.end("failed", 4, {"error": "SourceLostError", "message": "purged", "detail": "", "hint": ""})
    second = Simulation(tmp_path / "shop", [ORDERS], run="b", start=START + timedelta(minutes=1)).advance(3)
    cursor = indexed(first, second)
    newest, oldest = runs.runs(cursor, "shop")
    assert (newest.run, newest.ended, newest.state) == ("b", None, "running")
    assert (oldest.run, oldest.outcome, oldest.exit_code) == ("a", "failed", 4)
    assert "purged" in (oldest.error or "")
    totals = runs.run_totals(cursor, "shop")
    assert totals["shop", "a"].chunks == first.finished
    assert totals["shop", "a"].errors >= 1
    assert runs.latest_run(cursor, "other") is None
    assert runs.first_started(cursor, "shop") == START


def test_lag_is_the_worst_of_its_bucket_and_gaps_stay_gaps(half: Simulation) -> None:
    """An average would hide a peak; buckets without measurements are left out."""
    half.now += timedelta(seconds=60)
    half.advance(10)
    cursor = indexed(half)
    fine = series.lag_series(cursor, "shop", START, 1)
    coarse = series.lag_series(cursor, "shop", START, 10_000)
    assert max(p.lag_s or 0 for p in fine) == max(p.lag_s or 0 for p in coarse)
    assert len(coarse) < 4
    assert series.latest_lag(cursor, "shop") is not None
    assert series.latest_lag(cursor, "other") is None


def test_epochs_add_up(half: Simulation) -> None:
    """The sum over buckets equals the sum over commits, and the newest position is the last one."""
    cursor = indexed(half)
    totals = series.epoch_totals(cursor, "shop")
    assert sum(one.changes for one in series.epoch_series(cursor, "shop", START, 3000)) == totals.changes
    assert totals.epoch == half.epoch
    assert totals.to_position == f"mysql-bin.{half.file:06d}:{half.position}"


def test_commands_are_answered_by_their_id(half: Simulation) -> None:
    """The journal's answer is found for each command that the console sent."""
    half.command("pause", "c0ffee000001")
    cursor = indexed(half)
    found = log.answers(cursor, "shop", ["c0ffee000001", "unknown"])
    assert [one.event for one in found] == ["command.accepted", "command.done"]
    assert log.answers(cursor, "shop", []) == []


def test_the_tables_that_appeared_are_those_of_the_last_look(half: Simulation) -> None:
    """None before a look, and none once they are captured or gone. Other hidden changes do not count."""
    assert log.appeared(indexed(half), "shop") == []
    half.write("source.hidden", kind="new_tables", table=None, names=["shop.a", "shop.b"])
    half.write("source.hidden", kind="cascade", table="shop.orders", names=["x"])
    assert log.appeared(indexed(half), "shop") == ["shop.a", "shop.b"]
    half.write("source.hidden", kind="new_tables", table=None, names=[])
    assert log.appeared(indexed(half), "shop") == []


def test_a_redump_has_the_first_keys_that_were_asked_for(half: Simulation) -> None:
    """As the runner journals them: a command may have a million."""
    arguments = {"tables": ["shop.orders"], "keys": [str(n) for n in range(50)]}
    accepted = Command(Path("c.json"), "c", "redump", arguments=arguments).accepted("50 keys of shop.orders")
    half.write("command.accepted", id="c", verb="redump", what=accepted.what, keys=accepted.keys)
    half.now += timedelta(seconds=1)
    half.write("command.accepted", id="d", verb="redump", what="shop.orders", reason="again")
    whole, keyed = redumps(indexed(half), "shop")
    assert json.loads(keyed.keys or "") == [str(n) for n in range(20)]
    assert (whole.keys, whole.reason) == (None, "again")
    assert Command(Path("e.json"), "e", "redump", arguments={"keys": "17"}).accepted().keys is None


def test_lags_of_all_pipelines_come_from_one_query(half: Simulation, tmp_path: Path) -> None:
    """The newest reading of each, and the worst of each interval."""
    other = Simulation(tmp_path / "other", [COUNTRIES], start=START).advance(9)
    half.advance(9)
    cursor = indexed(half, other)
    newest = series.newest_lags(cursor, START)
    assert newest == {name: series.latest_lag(cursor, name) for name in ("shop", "other")}
    assert series.newest_lags(cursor, half.now) == {}
    for name, points in series.worst_lags(cursor, START, 4000).items():
        assert points == [(one.ts, one.lag_s) for one in series.lag_series(cursor, name, START, 4000)]


def test_events_are_filtered_by_name_and_text(half: Simulation) -> None:
    """Newest first; the text is searched in the whole line, ignoring case."""
    cursor = indexed(half)
    found = log.events(cursor, "shop", ["table.planned", "table.state"], text="COUNTRIES")
    assert {one.table for one in found} == {"shop.countries"}
    assert len(log.events(cursor, "shop", ["epoch.committed"], limit=2)) == 2


def test_a_failure_is_resolved_when_all_its_chunks_were_read_after_it(tmp_path: Path) -> None:
    """Not by an earlier read, and not by one chunk of two; a new plan ends failures of the old one."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START)

    def write(name: str, **fields: object) -> None:
        run.now += timedelta(seconds=1)
        run.write(name, table="shop.orders", **fields)

    def fail(chunks: list[int]) -> None:
        write("chunk.failed", chunks=chunks, group="g", error="E", message="m", retry_in_s=4)

    def resolved() -> list[bool]:
        return [one.resolved for one in log.events(indexed(run), "shop", ["chunk.failed", "chunk.parked"])]

    write("chunk.finished", chunk=0, rows=1)
    fail([0])
    fail([1, 2])
    fail([3])
    write("chunk.parked", chunk=4, error="E", message="m", attempts=8, parked=1)
    write("chunk.finished", chunk=1, rows=1)
    write("chunk.finished", chunk=3, rows=1)
    assert resolved() == [False, True, False, False]
    write("chunk.finished", chunk=4, rows=1)
    assert resolved() == [True, True, False, False]
    write("table.planned", chunks=[[None, None]], reason="r")
    fail([0])
    assert resolved() == [False, True, True, True, True]


def test_an_error_that_is_tried_again_is_over_when_that_time_has_passed(tmp_path: Path) -> None:
    """A newer line shows how it went on; an error that ended a run stays."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START)

    def resolved() -> list[bool]:
        return [one.resolved for one in log.events(indexed(run), "shop", ["error"])]

    run.write("error", message="away", retry_in_s=4)
    run.write("error", message="purged", retry_in_s=None)
    assert resolved() == [False, False]
    for after_s, over in ((3, False), (2, True)):
        run.now += timedelta(seconds=after_s)
        run.write("source.lag", lag_s=0.0, lag_bytes=0)
        assert resolved() == [False, over]


def test_two_pipelines_with_the_same_run_id_are_kept_apart(tmp_path: Path) -> None:
    """Run ids are unique within a pipeline only."""
    one = Simulation(tmp_path / "one", [ORDERS], run="r", start=START).advance(2)
    two = Simulation(tmp_path / "two", [ORDERS], run="r", start=START).advance(4)
    cursor = indexed(one, two)
    totals = runs.run_totals(cursor)
    assert (totals["one", "r"].chunks, totals["two", "r"].chunks) == (one.finished, two.finished)
    assert Directory(tmp_path / "one") == one.directory


def test_the_cost_of_merges_is_summed_by_table(tmp_path: Path) -> None:
    """Bytes of changes, and of what merges and maintenance wrote, since a time; appends have none."""
    directory = Directory(tmp_path / "shop")
    journal = Journal(directory.journal("r"), "r")
    applied = {"sink": "delta", "through_epoch": 1, "rows": 1, "files": 1, "duration_s": 0.1}
    for table, kind, changed, written in (
        ("d.a", "append", 0, 0),
        ("d.a", "merge", 100, 900),
        ("d.b", "merge", 10, 20),
    ):
        journal.write(
            event("sink.applied", table=table, kind=kind, changed_bytes=changed, written_bytes=written, **applied)
        )
    done = {"removed_files": 2, "removed_bytes": 50, "added_files": 1, "added_bytes": 100, "duration_s": 0.2}
    journal.write(event("sink.maintained", table="d.a", step="optimize", **done))
    journal.close()
    index = History(None)
    index.refresh([directory])
    long_ago, soon = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
    first, second = maintenance.work(index.cursor(), "shop", long_ago)
    assert (first.table, first.changed_bytes, first.merged_bytes, first.maintained_bytes, first.merges) == (
        "d.a",
        100,
        900,
        100,
        1,
    )
    assert (first.amplification, second.amplification) == (10.0, 2.0)
    assert first.merged is not None
    assert first.maintained is not None
    assert second.maintained is None
    assert maintenance.work(index.cursor(), "shop", soon) == []
