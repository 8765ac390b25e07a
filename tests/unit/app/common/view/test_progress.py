"""Progress, rates and the estimated time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.common.view.progress import (
    CopyPart,
    Remaining,
    between,
    committed_position,
    copy_of,
    copying,
    current_reads,
    estimate,
    finish,
    left_of,
    overlap_rows,
    planning_words,
    rows_per_s,
    share,
    status_line,
)
from engine.base import clock
from engine.history.series import EpochTotals
from engine.history.table_queries import TableProgress
from engine.pipeline.runner_record import OpenCommand, RunnerRecord, TableReading
from engine.spec.throttle_settings import Throttle
from tests.unit.app.support import NOW, ago, growing, lag, read, table


def ends(eta: str | None) -> tuple[float, float]:
    """Both ends of a range, in its unit."""
    assert eta is not None
    low, _, high = eta.rpartition(" ")[0].partition("–")
    return float(low), float(high or low)


TOTALS = EpochTotals(10, 812_000, NOW, 10, "bin.000001:10")


def test_rates_spread_a_chunk_over_its_read_time() -> None:
    """A chunk that began before the window counts in part."""
    assert overlap_rows(read(20, 0, 1000), ago(10), NOW) == 500
    assert rows_per_s([read(10, 0, 1000), read(10, 0, 500, reader="r2")], NOW) == 150
    assert rows_per_s([read(300, 290, 1000)], NOW) == 0
    assert rows_per_s([], NOW) is None
    assert rows_per_s([read(10, 0)], NOW, table="d.other") is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 10_000)), max_size=20))
def test_adjacent_windows_count_each_row_once(spans: list[tuple[int, int, int]]) -> None:
    """No row is lost or counted twice."""
    reads = [read(max(a, b) + 1, min(a, b), rows) for a, b, rows in spans]
    total = sum(overlap_rows(one, ago(n + 1), ago(n)) for one in reads for n in range(60))
    assert total == pytest.approx(sum(one.rows for one in reads))


def test_rows_of_a_chunk_that_is_being_read_count() -> None:
    """A table that is one large chunk shows rows and a rate; a redump of a copied table does not."""
    one, copied = table(1, 0, 0), table(3, 3, 30, name="d.copied")
    since = clock.utc_text(ago(20))
    reading = {name: TableReading([0], since, 60_000) for name in (one.table, copied.table)} | {
        "d.waiting": TableReading([1], since),
    }
    current = current_reads(reading, [one, copied], NOW)
    assert [(read.table, read.rows) for read in current] == [(one.table, 60_000)]
    copy = copy_of([one, copied], [], TOTALS, NOW, live=True, current=current)
    assert (copy.rows, copy.rows_s, copy.chunks_done) == (60_030, 3000, 3)


def test_no_estimate_before_one_percent_and_three_chunks() -> None:
    """It would be a guess."""
    reads = [read(n + 1, n, chunk=n) for n in range(10)]
    assert estimate(CopyPart(2, 2000), CopyPart(98, 98_000), reads, NOW) is None
    assert estimate(CopyPart(9, 9000), CopyPart(991, 991_000), reads, NOW) is None
    assert estimate(CopyPart(10, 10_000), CopyPart(990, 990_000), reads, NOW) is not None
    assert estimate(CopyPart(100, 100_000), CopyPart(0, 0), reads, NOW) is None
    assert estimate(CopyPart(5, 5000), CopyPart(95, 95_000), [], NOW) is None


def test_the_estimate_contains_a_steady_pace() -> None:
    """One chunk per second and fifty to go: about fifty seconds."""
    reads = [read(n + 1, n, chunk=n) for n in range(50)]
    found = estimate(CopyPart(50, 50_000), CopyPart(50, 50_000), reads, NOW)
    assert found is not None
    low, high = ends(found.text)
    assert low <= 50 <= high
    assert high < 60


SMALL = [table(1, 1, 10, 10, f"d.t{n}") for n in range(30)]
LARGE = table(100, 3, 30_000, 1_000_000, "d.large")
READS = [read(3.1 - n / 10, 3 - n / 10, 10, chunk=n, size=500) for n in range(30)]
READS += [read(0.1, 0, 10_000, chunk=n, size=100_000) for n in range(3)]


@pytest.mark.parametrize(
    ("throttle", "seconds"),
    [(Throttle(max_rows_per_s=10_000), 97), (Throttle(max_bytes_per_s=100_000), 97)],
)
def test_small_tables_do_not_hide_the_size_of_large_ones(throttle: Throttle, seconds: float) -> None:
    """Thirty of them took three seconds, but the 97 chunks of 10 000 rows that are left take 97 s with the throttle."""
    eta = copy_of([*SMALL, LARGE], READS, TOTALS, NOW, live=True, throttle=throttle).eta
    low, high = ends(eta)
    assert low == pytest.approx(seconds * 0.95, rel=0.1)
    assert high == pytest.approx(seconds * 1.05, rel=0.1)


def test_large_tables_do_not_inflate_small_ones() -> None:
    """With the throttle, a chunk of 10 000 rows took a second, and 300 tables of ten rows take no longer."""
    reads = [read(n + 1, n, 10_000, chunk=n) for n in range(50)]
    waiting = [table(1, 0, 0, 10, f"d.t{n}") for n in range(300)]
    throttle = Throttle(max_rows_per_s=10_000)
    eta = copy_of([table(50, 50, 500_000), *waiting], reads, TOTALS, NOW, live=True, throttle=throttle).eta
    assert eta == "1 s"


def test_without_a_throttle_a_small_table_costs_its_statements() -> None:
    """So 100 more small tables take as long as the first 100."""
    reads = [read((n + 1) / 100, n / 100, 10, chunk=n) for n in range(100)]
    done, waiting = ([table(1, n, 10 * n, 10, f"d.{n}{m}") for m in range(100)] for n in (1, 0))
    low, high = ends(copy_of([*done, *waiting], reads, TOTALS, NOW, live=True).eta)
    assert low <= 1 <= high


def test_the_work_left_is_estimated_from_chunks_or_the_source() -> None:
    """Or else from all chunks of the run."""
    assert left_of([table(10, 4, 800, 9999)], []) == CopyPart(6, 1200)
    assert left_of([table(10, 0, 0, 9999), table(3, 3, 300)], []) == CopyPart(10, 9999)
    assert left_of([table(10, 0, 0, None)], [read(2, 1, 50), read(1, 0, 150)]) == CopyPart(10, 1000)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(50, 65, "50–65 s"), (0, 0.2, "1 s"), (110, 200, "1.8–3.3 min"), (3600, 7200, "1–2 h"), (600, 1200, "10–20 min")],
)
def test_a_range_is_in_the_unit_of_its_upper_end(low: float, high: float, text: str) -> None:
    """`50–65 s`, not `0.8–1.1 min`."""
    assert between(low, high) == text


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (50, 66, "15:31:15 UTC ± 8 s"),
        (3000, 3720, "16:26 UTC ± 6 min"),
        (36_000, 43_200, "2026-02-01 02:30 UTC ± 1 h"),
        (1000, 1010, "15:47 UTC ± 1 min"),
    ],
)
def test_the_finish_is_a_clock_time_with_its_range(low_s: float, high_s: float, text: str) -> None:
    """No more exact than the range, and with the date if it is not today."""
    assert finish(Remaining(low_s, high_s), NOW) == text


def test_the_status_line_has_the_style_of_gh_ost() -> None:
    """One line, to paste into a chat."""
    copy = copy_of([table(100, 79, 5_900_000, 7_500_000)], [], TOTALS, NOW, live=True)
    assert status_line(copy, lag(0.4, 12_000), "running", "snapshot") == (
        "Copy: 5.9M/7.5M rows, 79/100 chunks 79.0%; "
        "Changes: 812k; Lag: 0.4s 12KB; bin.000001:10; State: snapshotting; ETA: not known yet"
    )


def test_the_status_line_shows_a_finished_copy_and_unknown_values() -> None:
    """No ETA if there is nothing to copy, and no 0 for an unknown value."""
    done = copy_of([table(10, 10, 990)], [], TOTALS, NOW, live=True)
    assert "; Lag: ≤48s; " in status_line(done, lag(0.4), "source unreachable", "streaming", "up to 48 s")
    assert status_line(done, None, "running", "streaming").endswith(
        "Lag: —; no position yet; State: streaming; ETA: copy done"
    )
    nothing = copy_of([], [], EpochTotals(0, 0, None, None, None), NOW, live=False)
    assert status_line(nothing, None, "not started", None).startswith("Copy: 0 rows, 0/0 chunks —;")


@pytest.mark.parametrize(
    "planned",
    [
        pytest.param(table(0, 0, name="d.new")._replace(state="copying"), id="a new table has no plan"),
        pytest.param(table(7, 7, 70, name="d.new")._replace(state="copying"), id="a resnapshot has the old plan"),
    ],
)
def test_the_copy_is_not_done_while_tables_are_being_planned(planned: TableProgress) -> None:
    """Their chunks are not known, so neither is a share of them, nor an end."""
    streams = table(10, 10, 990)._replace(state="streaming")
    copy = copy_of([streams, planned], READS, TOTALS, NOW, live=True)
    assert (copy.done, copy.split, copy.share, copy.eta, copy.halted) == (False, False, None, None, False)
    assert status_line(copy, None, "running", "snapshot").endswith("; ETA: tables are being planned")
    assert status_line(copy, None, "runner lost", "snapshot").endswith("; ETA: —")
    assert copying([streams, planned], live=True)


def test_a_table_that_is_being_added_is_planned_before_any_event_names_it() -> None:
    """Until then, the runner names it; before it plans, only the open command says so."""
    streams = table(10, 10, 990)._replace(state="streaming")
    command = RunnerRecord("running", commands=(OpenCommand("c1", "add-table"),))
    for record, words in (
        (command, "tables are being planned"),
        (replace(command, planning=("d.new",)), "d.new is being planned"),
        (RunnerRecord("running", planning=("d.a", "d.b")), "d.a, d.b are being planned"),
        (RunnerRecord("running", planning=tuple("abcde")), "a, b, c and 2 more are being planned"),
    ):
        copy = copy_of([streams], [], TOTALS, NOW, live=True, planning=planning_words(record))
        assert not copy.done
        assert status_line(copy, None, "running", "streaming").endswith(f"; ETA: {words}")
    idle = RunnerRecord("running", commands=(OpenCommand("c1", "redump"),))
    assert copy_of([streams], [], TOTALS, NOW, live=True, planning=planning_words(idle)).done


def test_a_finished_table_counts_its_actual_rows() -> None:
    """The source's estimate is used only until then."""
    copy = copy_of([table(10, 10, 990, 1500), table(10, 1, 100, 2000, "d.u")], [], TOTALS, NOW, live=False)
    assert (copy.rows, copy.expected_rows, copy.chunks_done) == (1090, 2990, 11)
    unknown = copy_of([table(10, 1, 100, None)], [], TOTALS, NOW, live=False)
    assert unknown.expected_rows is None


def test_the_share_is_of_the_expected_chunks() -> None:
    """It is less than 1 while a table is being split, and unknown without an estimate."""
    assert share([growing(12, 10, 400)]) == 0.025
    assert share([growing(12, 10, 400), table(100, 93, name="d.u")]) == 0.206
    assert share([growing(12, 12, 12)]) == share([growing(15, 15, 12)]) == 0.999
    assert share([growing(12, 12, None), table(100, 50, name="d.u")]) is None
    assert share([growing(0, 0, 400)]) == 0
    assert share([table(12, 12)]) == 1
    assert share([]) is None


def test_the_status_line_counts_chunks_that_are_not_planned_yet() -> None:
    """Their number is an estimate, and the copy is not done before the last one is planned."""
    copy = copy_of([growing(12, 12, 400), table(100, 100, 990, name="d.u")], [], TOTALS, NOW, live=True)
    text = status_line(copy, None, "running", "snapshot")
    assert text.startswith("Copy: 990/2k rows, 112/~500 chunks 22.4%; ")
    assert text.endswith("; ETA: not known yet")
    waiting = copy_of([growing(0, 0, 400)], [], TOTALS, NOW, live=True)
    assert (waiting.chunks, waiting.expected_rows, waiting.done) == (400, 1000, False)


def test_the_estimate_covers_all_expected_chunks() -> None:
    """With one chunk per second, as many seconds as chunks are left, planned or not.

    None if there are more than expected.
    """
    reads = [read(n + 1, n, chunk=n) for n in range(50)]
    eta = copy_of([growing(60, 50, 100)], reads, TOTALS, NOW, live=True).eta
    assert eta == copy_of([table(100, 50)], reads, TOTALS, NOW, live=True).eta
    assert eta is not None
    assert copy_of([growing(60, 50, 55)], reads, TOTALS, NOW, live=True).eta is None
    assert copy_of([growing(60, 50, None)], reads, TOTALS, NOW, live=True).eta is None
    assert copy_of([growing(50, 50, 100)], reads, TOTALS, NOW, live=True).rows_s is not None


def test_the_chunks_of_a_stopped_table_have_no_eta() -> None:
    """They are not read until it is resnapshotted, and do not delay the others."""
    stopped = table(10, 4, 400)._replace(state="stopped")
    recent = [read(n + 1, n, 100, chunk=n) for n in range(4)]
    alone = copy_of([stopped, table(3, 3, 30, name="d.done")], recent, TOTALS, NOW, live=True)
    assert (alone.remaining, alone.rows_s, alone.halted) == (None, None, True)
    assert status_line(alone, None, "running", "streaming").endswith("; ETA: —")
    going = table(10, 4, 400, name="d.going")
    assert not copying([stopped], live=True)
    assert copying([stopped, going], live=True)
    both = copy_of([stopped, going], recent, TOTALS, NOW, live=True)
    assert both.eta == copy_of([going], recent, TOTALS, NOW, live=True).eta is not None


def test_the_committed_position_is_that_of_the_lag_beside_it() -> None:
    """Or the newest that is known: a lost run may have committed after its last reading of the lag."""
    totals = EpochTotals(3, 7, ago(5), 3, "bin.000001:90")
    assert committed_position(lag(0.4, age=8), totals, current=True) == "bin.000001:10"
    assert committed_position(lag(0.4, age=8), totals, current=False) == "bin.000001:90"
    assert committed_position(lag(0.4, age=1), totals, current=False) == "bin.000001:10"
    assert committed_position(None, totals, current=True) == "bin.000001:90"
    assert committed_position(None, EpochTotals(0, 0, None, None, None), current=False) == ""
