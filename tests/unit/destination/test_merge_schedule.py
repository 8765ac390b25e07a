"""When merges are deferred."""

from pathlib import Path

from engine.destination.merge_schedule import MergeSchedule
from engine.spec.sink_settings import Sink

MB = 1 << 20


def sink(amplification: float = 100.0, delay_s: float = 300.0) -> Sink:
    """A destination with these limits."""
    return Sink(path=Path("lake"), max_write_amplification=amplification, max_merge_delay_s=delay_s)


def test_the_first_merge_and_cheap_merges_are_never_put_off() -> None:
    """Nothing is known of the first; a small mirror is rewritten however little has changed."""
    schedule = MergeSchedule()
    assert schedule.is_due(sink(), 1, 10.0)
    schedule.count_merge(10.0, 0.1, 900_000)
    assert schedule.is_due(sink(), 1, 11.0)
    schedule.count_merge(12.0, 0.04, 900 * MB)
    assert schedule.is_due(sink(), 1, 13.0)


def test_one_row_after_a_large_change_does_not_wait_for_it() -> None:
    """It is expected to cost in proportion. If it costs more, the next one waits."""
    schedule = MergeSchedule()
    for ended_s in (10.0, 60.0):
        schedule.count_merge(ended_s, 10.0, 300 * MB, 200 * MB)
    assert not schedule.is_due(sink(), 200 * MB, 61.0)
    assert schedule.is_due(sink(), 2000, 61.0)
    for ended_s in (61.0, 62.0):
        schedule.count_merge(ended_s, 0.5, 30 * MB, 2000)
    assert not schedule.is_due(sink(), 2000, 64.0)


def test_merges_take_a_quarter_of_the_time() -> None:
    """After merges of six seconds, eighteen without one."""
    schedule = MergeSchedule(ended_s=100.0, took_s=7.0, before_took_s=6.0, written_bytes=1)
    assert not schedule.is_due(sink(), MB, 117.9)
    assert schedule.is_due(sink(), MB, 118.1)


def test_a_single_slow_merge_does_not_put_off_the_next_one() -> None:
    """It may have indexed files. Two slow ones do."""
    schedule = MergeSchedule()
    schedule.count_merge(10.0, 0.1, 1)
    schedule.count_merge(20.0, 4.0, 1)
    assert schedule.is_due(sink(), MB, 20.5)
    schedule.count_merge(24.5, 4.0, 1)
    assert not schedule.is_due(sink(), MB, 25.0)
    assert schedule.is_due(sink(), MB, 37.0)


def test_merges_write_at_most_so_many_times_the_changes() -> None:
    """Until the longest delay; 0 sets no limit."""
    schedule = MergeSchedule(ended_s=100.0, took_s=0.1, written_bytes=150 * MB)
    assert not schedule.is_due(sink(), MB, 120.0)
    assert schedule.is_due(sink(), 2 * MB, 120.0)
    assert schedule.is_due(sink(0.0), 1, 120.0)
    assert not schedule.is_due(sink(), MB, 399.0)
    assert schedule.is_due(sink(), MB, 400.0)
