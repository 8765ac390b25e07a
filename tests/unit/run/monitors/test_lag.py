"""The lag in seconds: since when everything outstanding was committed at the earliest."""

import pytest

from engine.run.monitors.lag import Backlog, CommittedPosition, lag
from engine.source.measured_ends import MeasuredEnds
from engine.source.positions import Position

FILES = {"b.000008": 1000, "b.000009": 900}


def at(offset: int, file: str = "b.000009") -> Position:
    """A position."""
    return Position(file, offset)


def test_idle_time_is_no_lag() -> None:
    """Two seconds after a transaction that ends an idle hour, the lag is two seconds and not an hour."""
    ends, committed = MeasuredEnds(), CommittedPosition(at(500), last_ts=1_000)
    for now_s in (4_600.0, 4_602.0):
        ends.measured(at(500), now_s - 0.1)
        assert lag(committed, at(500), FILES, now_s, None, ends.reached_s(at(500))).lag_s == 0.0
    ends.measured(at(900), 4_603.9)
    found = lag(committed, at(900), FILES, 4_604.0, None, ends.reached_s(at(500)))
    assert found.lag_s == pytest.approx(2.1)
    assert found.lag_bytes == 400


def test_a_backlog_is_as_old_as_its_first_measured_end() -> None:
    """It grows while nothing is committed, and shrinks as measured ends are passed."""
    ends, committed = MeasuredEnds(), CommittedPosition(at(500), last_ts=1_000)
    for offset, asked_s in ((500, 1_010.0), (600, 1_012.0), (700, 1_014.0)):
        ends.measured(at(offset), asked_s)
    assert lag(committed, at(700), FILES, 1_015.0, None, ends.reached_s(at(500))).lag_s == 5.0
    assert lag(committed, at(700), FILES, 1_025.0, None, ends.reached_s(at(599))).lag_s == 15.0
    assert lag(CommittedPosition(at(650), 1_011), at(700), FILES, 1_025.0, None, ends.reached_s(at(650))).lag_s == 13.0


def test_an_unknown_end_changes_nothing() -> None:
    """Before the first measurement, and after another server's positions, the last committed transaction counts."""
    ends, committed = MeasuredEnds(), CommittedPosition(at(500), last_ts=1_000)
    assert lag(committed, at(700), FILES, 1_015.0, None, ends.reached_s(at(500))).lag_s == 15.0
    assert lag(CommittedPosition(at(500), 0), at(700), FILES, 1_015.0, None, ends.reached_s(at(500))).lag_s is None
    ends.measured(at(500), 1_010.0)
    assert ends.reached_s(at(500)) == 1_010.0
    ends.measured(at(700), 1_011.0)
    ends.measured(at(4, "b.000001"), 1_012.0)
    assert ends.reached_s(at(4, "b.000001")) == 1_012.0


def test_a_backlog_is_there_from_the_start_until_the_lag_is_small_and_again_when_it_is_large() -> None:
    """A lag that varies around one limit does not let verification begin and end over and over."""
    backlog = Backlog(behind_s=60.0)
    seen = []
    for lag_s in (None, 3000.0, 10.5, 10.0, 59.0, None, 60.0, 61.0, 30.0, 0.0):
        backlog.observe(lag_s)
        seen.append(backlog.is_there)
    assert seen == [True, True, True, False, False, False, False, True, True, False]
