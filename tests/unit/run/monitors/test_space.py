"""The space on the destination's disk, and when it is full."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.base import clock
from engine.base.errors import DiskFullError
from engine.journal import Entry
from engine.journal.destination_events import SpaceMeasured
from engine.journal.events import DiskFreed, ErrorReported, Event
from engine.run.monitors.space import SpaceMonitor, growth_per_day

HOUR = 3600.0


def test_growth_is_the_slope_of_the_last_day() -> None:
    """A vacuum in between does not hide it; too little is no forecast."""
    assert growth_per_day([]) is None
    assert growth_per_day([(0.0, 5)]) is None
    assert growth_per_day([(0.0, 0), (HOUR - 1, 10)]) is None
    assert growth_per_day([(0.0, 0), (HOUR, 10)]) == pytest.approx(240)
    steady = [(n * HOUR, 1000 + 10 * n) for n in range(25)]
    assert growth_per_day(steady) == pytest.approx(240)
    assert growth_per_day([(at, size - 30 * (n % 6)) for n, (at, size) in enumerate(steady)]) == pytest.approx(
        240, rel=0.2
    )
    shrinking = growth_per_day([(at, -size) for at, size in steady])
    assert shrinking == pytest.approx(-240)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock, a disk, and what was journaled."""
    world = SimpleNamespace(now_s=1e9, used=100, events=list[SpaceMeasured](), file=tmp_path / "space.json")
    monkeypatch.setattr(clock, "monotonic_s", lambda: world.now_s)
    monkeypatch.setattr(clock, "unix_s", lambda: world.now_s)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=10_000, free=10_000 - world.used))
    world.monitor = lambda: SpaceMonitor(tmp_path / "not/yet", world.file, world.events.append)
    return world


def test_it_measures_once_a_minute_and_remembers_an_hour_across_runs(measured: SimpleNamespace) -> None:
    """The forecast continues after a restart; old samples go."""
    monitor = measured.monitor()
    for _ in range(5):
        monitor.measure()
    assert len(measured.events) == 1
    assert (measured.events[0].free_bytes, measured.events[0].full_in_s) == (9900, None)
    for _ in range(60 * 30):
        measured.now_s, measured.used = measured.now_s + 60, measured.used + 1
        monitor.measure()
    assert measured.events[-1].growth_per_day == pytest.approx(1440, rel=0.01)
    assert measured.events[-1].full_in_s == pytest.approx((10_000 - measured.used) * 60, rel=0.01)
    assert len(json.loads(measured.file.read_text())) <= 25
    measured.monitor().measure()
    assert measured.events[-1].growth_per_day == pytest.approx(1440, rel=0.01)


@pytest.mark.parametrize("content", ["", "{", "[[1]]", '{"a": 1}'])
def test_a_damaged_file_of_samples_is_begun_again(measured: SimpleNamespace, content: str) -> None:
    """It is only a forecast."""
    measured.file.write_text(content)
    measured.monitor().measure()
    assert measured.events[0].growth_per_day is None
    assert len(json.loads(measured.file.read_text())) == 1


@pytest.mark.parametrize(
    "event",
    [DiskFreed(attempts=1, duration_s=1.0), ErrorReported.of(DiskFullError("A disk is full."), attempt=1)],
)
def test_it_measures_at_once_when_a_disk_is_full_or_has_room_again(measured: SimpleNamespace, event: Event) -> None:
    """Nobody reads `0 B free` for a minute after space was freed."""
    monitor = measured.monitor()
    monitor.measure()
    measured.used = 0
    monitor.hear(Entry("r", 1, clock.utc_text(), event))
    monitor.measure()
    monitor.measure()
    assert [one.free_bytes for one in measured.events] == [9900, 10_000]
