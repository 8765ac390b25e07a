"""Lag and throughput over time, with gaps and thresholds."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.live.view.curves import change_rates, curves_of, end, row_rates, start, summary, thresholds, width_ms
from tests.unit.app.support import NOW, ago, epoch, lag, read


def test_an_interval_without_a_reading_is_a_gap() -> None:
    """A line over an hour without a runner would be wrong."""
    points = [lag(1, age=100), lag(1, age=98), lag(2, age=10), lag(None, age=8)]
    seconds, size = curves_of([], [], points, (ago(120), NOW), [], 2000)
    assert seconds.line["y"] == [1, 1, None, 2, None]
    assert size.line["y"] == [1000, 1000, None, 1000, 1000]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 30), st.integers(1, 5000)), min_size=1, max_size=15))
def test_the_chart_has_all_rows(spans: list[tuple[int, int, int]]) -> None:
    """Rates times bucket widths are the rows, if the chart covers the reads."""
    reads = [read(ended + took, ended, rows) for ended, took, rows in spans]
    _, rates = row_rates(reads, ago(140), NOW, 5000)
    assert sum((value or 0) * 5 for value in rates) == pytest.approx(sum(rows for *_, rows in spans))


def test_outside_of_the_copy_there_is_no_rate() -> None:
    """Nothing is drawn before the first and after the last chunk; a pause in between is 0."""
    times, rates = row_rates([read(50, 40), read(20, 10)], ago(60), NOW, 10_000)
    assert rates == [100, 0, 0, 100]
    assert times[0] == ago(45)
    assert row_rates([], ago(60), NOW, 2000) == ([], [])
    assert change_rates([], ago(60), NOW, 2000) == ([], [])


def test_changes_are_spread_over_the_time_since_the_last_epoch() -> None:
    """There are fewer epochs than points. Idle time of a live runner is 0."""
    times, rates = change_rates([epoch(30, 100), epoch(10, 200)], ago(60), NOW, 10_000)
    assert times[0] == ago(35)
    assert rates == [10, 10, 10, 0]
    lives = [(ago(60), ago(20))]
    (changes,) = curves_of([read(20, 10)], [epoch(30, 100)], [], (ago(60), NOW), lives, 10_000)
    assert changes.line["y"] == [10, 0, None, None]


def test_rates_are_unknown_without_a_live_runner() -> None:
    """Between a lost run and the next one, a rate is not 0."""
    reads, lives = [read(50, 40), read(20, 10)], [(ago(60), ago(40)), (ago(20), NOW)]
    found = curves_of(reads, [epoch(45, 100), epoch(5, 100)], [], (ago(60), NOW), lives, 10_000)
    rows, changes = (curve.line["y"] for curve in found)
    assert rows == [100, None, None, 100]
    assert [value is None for value in changes] == [False, False, True, True, False, False]


def test_a_gap_is_not_filled() -> None:
    """The room below a line ends at the base line where its values end."""
    reads, lives = [read(50, 40), read(20, 10)], [(ago(60), ago(40)), (ago(20), NOW)]
    (rows,) = curves_of(reads, [], [], (ago(60), NOW), lives, 10_000)
    assert rows.area is not None
    assert rows.area["y"] == [0, 100, 0, 0, 100, 0]
    assert rows.area["x"] == [rows.line["x"][0]] * 3 + [rows.line["x"][3]] * 3
    (seconds, _) = curves_of([], [], [lag(1, age=10)], (ago(60), NOW), [], 2000)
    assert seconds.area is None


def test_rates_have_units_of_the_thing() -> None:
    """Less than a change a second is a decimal, not `500m` changes; many have a prefix."""
    lives, shown = [(ago(60), NOW)], (ago(60), NOW)
    (few,) = curves_of([], [epoch(30, 5)], [], shown, lives, 10_000)
    (many,) = curves_of([], [epoch(30, 50_000)], [], shown, lives, 10_000)
    assert few.ticks == ".2~f"
    assert few.line["hovertemplate"].startswith("%{y:.2~f} changes/s")
    assert many.ticks == ".3~s"


def test_a_curve_without_a_value_in_the_time_shown_is_left_out() -> None:
    """An empty scale would look like 0."""
    found = curves_of([read(200, 190)], [], [lag(None, None)], (ago(60), NOW), [(ago(300), NOW)], 10_000)
    assert found == []


def test_thresholds_are_those_of_the_page_and_of_the_spec() -> None:
    """Below ten seconds is keeping up; alerts have thresholds only if the spec sets them."""
    assert [one.name for one in thresholds(None, None)] == ["keeping up below 10 s"]
    names = [one.name for one in thresholds(60.0, 5_000_000)]
    assert names == ["keeping up below 10 s", "alert above 1 min", "alert above 5 MB"]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 1000)), min_size=1, max_size=12))
def test_the_chart_has_all_changes(commits: list[tuple[int, int]]) -> None:
    """Spreading neither loses nor adds changes."""
    epochs = [epoch(age + 1, changes) for age, changes in sorted(commits, reverse=True)]
    _, rates = change_rates(epochs, ago(200), NOW, 2000)
    assert sum((value or 0) * 2 for value in rates) == pytest.approx(sum(one.changes for one in epochs))


def test_charts_begin_and_end_where_there_is_data() -> None:
    """A new run fills its chart; a dead one shows its last minutes."""
    assert start(ago(300), NOW, [ago(100)]) == ago(100)
    assert start(ago(300), NOW, [ago(5)]) == ago(30)
    assert start(ago(300), NOW, []) == ago(300)
    assert end(NOW, ago(30)) == NOW
    assert end(NOW, ago(3000)) == ago(3000)
    assert end(NOW, None) == NOW


@given(st.integers(10, 604_800))
def test_a_chart_has_at_most_240_points(seconds: int) -> None:
    """And a bucket width in whole steps."""
    width = width_ms(NOW - timedelta(seconds=seconds), NOW)
    assert width % 2000 == 0
    assert seconds * 1000 / width <= 240


def test_the_lag_chart_has_a_sentence() -> None:
    """For screen readers."""
    assert summary([lag(3, age=9), lag(0.5)]) == "Lag over time: now 0.5 s, at most 3.0 s"
    assert summary([lag(None)]) == "Lag over time: nothing measured yet"
