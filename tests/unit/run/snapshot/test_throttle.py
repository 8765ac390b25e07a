"""Rates hold on average, hours are respected, limits are explained in words."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SpecError
from engine.run.snapshot.throttle import Hold, RateShare, ReadPace, too_much
from engine.spec.throttle_settings import Throttle, throttled, within_hours

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.floats(0.0, 2.0)), min_size=20, max_size=60),
    st.integers(100, 2000),
    st.integers(1, 4),
)
def test_a_rate_is_kept_on_average(chunks: list[tuple[int, float]], rate: int, readers: int) -> None:
    """Also by readers that read at once and ignore their shares.

    What a reader reads within its share costs nothing twice.
    """
    pace, now_s, reading = ReadPace(Throttle(max_rows_per_s=rate)), 100.0, list[tuple[float, RateShare, int]]()
    read = 0
    for rows, took_s in chunks:
        while len(reading) == readers or pace.wait(now_s, NOON):
            now_s += 0.01
            for job in [job for job in reading if job[0] <= now_s]:
                reading.remove(job)
                pace.release(job[1], job[2], 0, now_s)
                read += job[2]
        assert read <= rate * (now_s - 100.0) * 1.001 + 1
        reading.append((now_s + took_s, pace.take_share(readers - len(reading), now_s), rows))
        assert sum(job[1].rows_per_s for job in reading) <= rate * 1.01


def test_shares_never_exceed_the_rate_and_a_lone_group_gets_all() -> None:
    """A group that starts later gets what is free; a group that keeps to its share is not charged again."""
    pace = ReadPace(Throttle(max_rows_per_s=3000))
    one = pace.take_share(3, 0.0)
    two = pace.take_share(2, 0.0)
    assert (one.rows_per_s, two.rows_per_s) == pytest.approx((1000, 1000))
    pace.release(one, 10_000, 0, 10.0)
    assert pace.wait(10.0, NOON) == "", "it read no faster than its share"
    alone = pace.take_share(1, 10.0)
    assert alone.rows_per_s == pytest.approx(2000)
    assert pace.wait(10.0, NOON) == "at most 3,000 rows/s", "all is leased"
    pace.settings = Throttle(max_rows_per_s=6000)
    assert pace.wait(10.0, NOON) == "", "a higher limit leaves room at once"
    pace.settings = Throttle(max_rows_per_s=1500)
    pace.release(alone, 26_000, 0, 20.0)
    pace.release(two, 20_000, 0, 20.0)
    assert pace.wait(23.9, NOON)
    assert pace.wait(24.1, NOON) == "", "6000 rows too many take 4 s at the rate of now"
    assert ReadPace(Throttle()).take_share(2, 0.0).rate(100.0) == 0.0


@pytest.mark.parametrize(
    ("rows", "size", "row_bytes", "rate"), [(500, 0, 9, 500), (0, 500, 10, 50), (500, 500, 10, 50), (30, 500, 10, 30)]
)
def test_a_share_of_bytes_is_a_rate_of_rows(rows: int, size: int, row_bytes: float, rate: float) -> None:
    """By the size of the table's rows; the tighter one counts."""
    assert RateShare(rows, size, 0.0).rate(row_bytes) == rate


def test_the_tighter_of_two_rates_counts_and_may_be_changed() -> None:
    """Here the limit of bytes; without limits nothing waits."""
    pace = ReadPace(Throttle(max_rows_per_s=1000, max_bytes_per_s=10))
    pace.release(pace.take_share(1, 0.0), 1000, 100, 0.0)
    assert pace.wait(9.9, NOON) == "at most 1,000 rows/s and 10 bytes/s"
    assert pace.wait(10.0, NOON) == ""
    assert pace.share(400_000) == 1000 / 400_000
    pace.release(pace.take_share(1, 10.0), 1000, 100, 10.0)
    pace.settings = Throttle()
    assert pace.wait(15.0, NOON) == ""
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
    assert bool(ReadPace(Throttle(hours=hours)).wait(0.0, at)) is not within


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
