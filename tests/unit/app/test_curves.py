"""Lag and throughput over time, with gaps and annotations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.view.curves import (
    annotate,
    bands,
    change_rates,
    end,
    lag_figure,
    row_rates,
    start,
    summary,
    throughput_figure,
    width_ms,
)
from tests.unit.app.support import NOW, ago, epoch, lag, mark, read


def test_an_interval_without_a_reading_is_a_gap() -> None:
    """A line over an hour without a runner would be wrong."""
    points = [lag(1, age=100), lag(1, age=98), lag(2, age=10), lag(None, age=8)]
    seconds, size = lag_figure(points, [], ago(120), NOW, 2000)["data"]
    assert seconds["y"] == [1, 1, None, 2, None]
    assert size["y"] == [1000, 1000, None, 1000, 1000]


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
    figure = throughput_figure([read(20, 10)], [epoch(30, 100)], [], (ago(60), NOW), lives, 10_000)
    assert figure["data"][1]["y"] == [10, 0, None, None]


def test_rates_are_unknown_without_a_live_runner() -> None:
    """Between a lost run and the next one, a rate is not 0."""
    reads, lives = [read(50, 40), read(20, 10)], [(ago(60), ago(40)), (ago(20), NOW)]
    figure = throughput_figure(reads, [epoch(45, 100), epoch(5, 100)], [], (ago(60), NOW), lives, 10_000)
    rows, changes = (data["y"] for data in figure["data"])
    assert rows == [100, None, None, 100]
    assert [value is None for value in changes] == [False, False, True, True, False, False]


def test_rates_have_units_of_the_thing() -> None:
    """Less than a change a second is a decimal, not `500m` changes; many have a prefix."""
    lives, shown = [(ago(60), NOW)], (ago(60), NOW)
    few = throughput_figure([], [epoch(30, 5)], [], shown, lives, 10_000)
    many = throughput_figure([], [epoch(30, 50_000)], [], shown, lives, 10_000)
    assert few["layout"]["yaxis2"]["tickformat"] == ".2~f"
    assert few["data"][1]["hovertemplate"].startswith("%{y:.2~f} changes/s")
    assert many["layout"]["yaxis2"]["tickformat"] == ".3~s"


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 1000)), min_size=1, max_size=12))
def test_the_chart_has_all_changes(commits: list[tuple[int, int]]) -> None:
    """Spreading neither loses nor adds changes."""
    epochs = [epoch(age + 1, changes) for age, changes in sorted(commits, reverse=True)]
    _, rates = change_rates(epochs, ago(200), NOW, 2000)
    assert sum((value or 0) * 2 for value in rates) == pytest.approx(sum(one.changes for one in epochs))


def test_pauses_and_missing_runners_are_bands() -> None:
    """They explain a flat curve."""
    marks = [
        mark(90, "run.started"),
        mark(90, "run.state", "running"),
        mark(60, "run.state", "paused"),
        mark(40, "run.state", "running"),
        mark(20, "run.ended", "stopped"),
    ]
    assert bands(marks, ago(100), NOW) == [(ago(60), ago(40), "paused"), (ago(20), NOW, "no runner")]
    assert bands(marks, ago(50), NOW)[0][0] == ago(50)
    shapes, notes = annotate([*marks, mark(10, "source.event", "rotation")], ago(100), NOW)
    assert len([shape for shape in shapes if shape["type"] == "rect"]) == 2
    assert {note["text"] for note in notes} == {"paused", "no runner", "started", "rotation"}


def test_labels_that_would_overlap_are_merged() -> None:
    """Two schema changes within seconds have two lines, but one label."""
    marks = [
        mark(50, "source.event", "evolved"),
        mark(47, "source.event", "resnapshotted"),
        mark(20, "source.event", "evolved"),
    ]
    shapes, notes = annotate(marks, ago(100), NOW)
    assert len(shapes) == 3
    assert [note["text"] for note in notes] == ["evolved, 1 more", "evolved"]


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
