"""Rates hold on average, hours are respected, limits are explained in words."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.run.snapshot.throttle import Hold, Pace, too_much
from engine.settings import Throttle, throttled, within_hours

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@given(st.lists(st.integers(1, 5000), min_size=20, max_size=60), st.integers(100, 2000))
def test_a_rate_is_kept_on_average(chunks: list[int], rate: int) -> None:
    """Reading as soon as allowed takes as long as the rate requires, except for the last chunk."""
    pace, now_s = Pace(Throttle(max_rows_per_s=rate)), 100.0
    for rows in chunks:
        while pace.wait(now_s, NOON):
            now_s += 0.01
        pace.spend(rows, 1, now_s)
    assert (now_s - 100.0) * rate == pytest.approx(sum(chunks[:-1]), abs=rate * 0.02 * len(chunks))


def test_the_tighter_of_two_rates_counts_and_may_be_changed() -> None:
    """Here the limit of bytes; without limits nothing waits."""
    pace = Pace(Throttle(max_rows_per_s=1000, max_bytes_per_s=10))
    pace.spend(1000, 100, 0.0)
    assert pace.wait(9.9, NOON) == "at most 1,000 rows/s and 10 bytes/s"
    assert pace.wait(10.0, NOON) == ""
    assert pace.share(400_000) == 1000 / 400_000
    pace.settings = Throttle()
    assert pace.wait(5.0, NOON) == ""
    assert pace.share(400_000) == 1.0


@pytest.mark.parametrize(
    ("hours", "time", "within"),
    [
        ((), "12:00", True),
        (("22:00-06:00",), "21:59", False),
        (("22:00-06:00",), "22:00", True),
        (("22:00-06:00",), "05:59", True),
        (("22:00-06:00",), "06:00", False),
        (("01:00-02:00", "12:00-13:00"), "12:30", True),
        (("01:00-24:00",), "23:59", True),
    ],
)
def test_hours(hours: tuple[str, ...], time: str, within: bool) -> None:
    """Also across midnight."""
    at = datetime.fromisoformat(f"2026-01-31T{time}:00+00:00")
    assert within_hours(hours, at) is within
    assert bool(Pace(Throttle(hours=hours)).wait(0.0, at)) is not within


def test_what_is_too_much_is_named_with_its_limit() -> None:
    """As gh-ost does."""
    status = {"Threads_running": 61.0, "Threads_connected": 5.0}
    assert too_much(status, {"Threads_running": 60, "Threads_connected": 5}) == "Threads_running is 61 (limit 60)"
    assert too_much(status, {"Threads_running": 61}) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 1},
        {"max_rows_per_s": -1},
        {"hours": ["25:00-26:00"]},
        {"replicas": ["there"]},
        {"max_load": {"a; DROP": 1}},
        {"max_load": 5},
    ],
)
def test_what_is_no_throttle_is_refused(changes: dict[str, object]) -> None:
    """The error lists the valid names."""
    with pytest.raises(SpecError, match="No such throttle") as raised:
        throttled(Throttle(), changes)
    assert "max_rows_per_s" in raised.value.hint


def test_a_load_is_within_its_limits_when_it_was_so_for_a_while() -> None:
    """A load fluctuates; a failed measurement decides nothing; new limits count at once."""
    hold, limits = Hold(), Throttle(max_load={"Threads_running": 3})
    assert hold.after("", limits, 10.0) == ""
    assert hold.after("5 are too many", limits, 10.25) == "5 are too many"
    assert hold.after("", limits, 18.0) == "5 are too many", "the last measurement was long ago"
    assert hold.after("4 are too many", limits, 18.25) == "4 are too many"
    assert hold.after("", limits, 18.5) == "4 are too many"
    assert hold.after(None, limits, 19.5) == "4 are too many"
    assert hold.after("", limits, 20.75) == "4 are too many"
    assert hold.after("", limits, 22.5) == "4 are too many"
    assert hold.after("", limits, 22.75) == ""
    assert hold.after("4 are too many", limits, 23.0) == "4 are too many"
    assert hold.after("", Throttle(max_load={"Threads_running": 9}), 23.25) == ""
