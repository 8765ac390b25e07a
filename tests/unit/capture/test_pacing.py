"""A paced reader never exceeds its rate within a second, whatever it reads and however its chunks are cut."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.capture.pacing import Pacer, ReadEndedError, slice_rows


@dataclass
class Time:
    """A clock that moves only when somebody sleeps or reads."""

    now_s: float = 50.0
    naps: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now_s += seconds


@given(
    st.floats(0.5, 500_000),
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 0.4)), min_size=5, max_size=80),
)
def test_no_second_brings_more_than_the_rate_and_one_slice(
    rows_per_s: float, slices: list[tuple[float, float]]
) -> None:
    """Slices may be short, as at the end of a chunk, and take any time."""
    time = Time()
    pacer, most = Pacer(lambda: time.now_s, time.sleep), slice_rows(rows_per_s)
    read: list[tuple[float, int]] = []
    for filled, took_s in slices:
        pacer.wait(inf)
        rows = round(filled * most)
        read.append((time.now_s, rows))
        time.now_s += took_s
        pacer.read(rows, rows_per_s)
    for since_s, _ in read:
        within = sum(rows for at_s, rows in read if since_s <= at_s < since_s + 1.0)
        assert within <= rows_per_s + most + 1e-6
    assert max(time.naps, default=0.0) <= 1.0


def test_the_rate_is_reached() -> None:
    """A reader that needs no time reads at the rate."""
    time = Time()
    pacer, began_s = Pacer(lambda: time.now_s, time.sleep), time.now_s
    for _ in range(50):
        pacer.wait(inf)
        pacer.read(600, 3000)
    assert time.now_s - began_s == pytest.approx(49 * 0.2)
    assert pacer.take_paused_s() == pytest.approx(49 * 0.2)
    assert pacer.take_paused_s() == 0.0


def test_a_pause_may_be_limited() -> None:
    """What was not waited for is still due afterwards."""
    time = Time()
    pacer = Pacer(lambda: time.now_s, time.sleep)
    pacer.wait(60.0)
    pacer.read(1000, 10)
    pacer.wait(60.0)
    assert time.now_s == pytest.approx(110.0)
    pacer.wait(60.0)
    assert time.now_s == pytest.approx(150.0)


def test_a_file_ends_the_pauses(tmp_path: Path) -> None:
    """Within a second, however long the pause is."""
    time = Time()
    pacer = Pacer(lambda: time.now_s, time.sleep)
    pacer.end = tmp_path / "end"
    pacer.wait(inf)
    pacer.read(1000, 10)
    pacer.end.touch()
    with pytest.raises(ReadEndedError):
        pacer.wait(inf)
    assert time.now_s <= 51.0


@pytest.mark.parametrize(("rate", "rows"), [(0.1, 10), (3000, 600), (10_000_000, 20_000)])
def test_a_slice_is_a_fifth_of_a_second(rate: float, rows: int) -> None:
    """But no statement reads a handful of rows, or more than fit into memory."""
    assert slice_rows(rate) == rows
