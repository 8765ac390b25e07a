"""How soon a change can be read after its commit on the source."""

import pytest

from engine.base import clock
from engine.destination.freshness import AgeHistogram, CommitTimes, FreshnessMeter


class Now:
    """A clock that stands until it is set."""

    s = 1_000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """The runner's clock."""
    found = Now()
    monkeypatch.setattr(clock, "monotonic_s", lambda: found.s)
    return found


def test_percentiles_are_of_changes_not_of_epochs() -> None:
    """Within five percent, whatever the ages; and never below the truth."""
    ages = AgeHistogram()
    assert ages.percentiles(0.0) is None
    ages.add(0.1, 0.1, 900, 5.0)
    ages.add(2.0, 4.0, 100, 6.0)
    found = ages.percentiles(7.0)
    assert found is not None
    assert found["p50"] == pytest.approx(0.1, rel=0.06)
    assert found["p95"] == pytest.approx(3.0, rel=0.06)
    assert found["p99"] == pytest.approx(3.8, rel=0.06)
    assert 4.0 <= found["max"] <= 4.2


@pytest.mark.parametrize("age_s", [0.0, 0.0004, 1.0, 59.0, 86_000.0, 1e7])
def test_any_age_has_a_place(age_s: float) -> None:
    """From a clock's resolution to months."""
    ages = AgeHistogram()
    ages.add(age_s, age_s, 1, 0.0)
    found = ages.percentiles(0.0)
    assert found is not None
    assert round(age_s, 3) <= found["p50"] == found["max"] <= max(age_s * 1.06, 0.001)


def test_ages_are_forgotten_after_ten_minutes() -> None:
    """In constant memory."""
    ages = AgeHistogram()
    for second in range(5_000):
        ages.add(1.0, 1.0, 1, float(second))
    assert ages.percentiles(4_999.0 + 590.0) is not None
    assert ages.percentiles(4_999.0 + 611.0) is None


def test_the_log_and_the_mirror_are_measured_when_they_can_be_read(now: Now) -> None:
    """The first change of an epoch has waited longer than the last one."""
    meter = FreshnessMeter()
    meter.committed(7, CommitTimes(999.0, 1_000.0), {"d.a": 10, "d.b": 5}, ["d.a"])
    now.s = 1_000.5
    meter.appended(6, ())
    assert meter.measured().log is None
    meter.appended(7, ())
    log = meter.measured().log
    assert log is not None
    assert log["p50"] == pytest.approx(1.0, rel=0.06)
    assert log["max"] == pytest.approx(1.5, rel=0.06)
    now.s = 1_003.0
    meter.merged("d.b", 7)
    assert meter.measured().mirror is None, "a table without a mirror"
    meter.merged("d.a", 7)
    mirror = meter.measured().mirror
    assert mirror is not None
    assert mirror["p50"] == pytest.approx(3.5, rel=0.06)
    meter.merged("d.a", 8)
    assert meter.measured().mirror == mirror


def test_what_cannot_be_read_is_not_measured(now: Now) -> None:
    """A table that failed, and changes of before a resnapshot."""
    meter = FreshnessMeter()
    meter.committed(1, CommitTimes(990.0, 991.0), {"d.a": 10, "d.b": 1}, ["d.a", "d.b"])
    meter.appended(1, {"d.a"})
    log = meter.measured().log
    assert log is not None
    meter.forget("d.a")
    meter.merged("d.a", 1)
    assert meter.measured().mirror is None
    now.s = 1_001.0
    meter.merged("d.b", 1)
    assert meter.measured().mirror is not None


def test_a_copy_brings_changes_to_the_mirror_too(now: Now) -> None:
    """No merge follows: the mirror has them with its last chunk."""
    meter = FreshnessMeter()
    meter.committed(3, CommitTimes(999.0, 1_000.0), {"d.a": 1, "d.b": 1}, ["d.a", "d.b"])
    now.s = 1_001.0
    meter.merged_through({"d.a": 3, "d.b": 2})
    mirror = meter.measured().mirror
    now.s = 9_000.0
    meter.merged("d.a", 4)
    assert mirror is not None
    assert mirror["max"] == pytest.approx(2.0, rel=0.06)
    assert len(meter._unmerged["d.b"]) == 1


def test_a_mirror_that_is_not_merged_for_long_costs_no_memory(now: Now) -> None:
    """Its epochs are counted together."""
    meter = FreshnessMeter()
    for epoch in range(1, 1_001):
        meter.committed(epoch, CommitTimes(now.s - 1, now.s), {"d.a": 1}, ["d.a"])
        meter.appended(epoch, ())
        now.s += 1
    assert len(meter._unmerged["d.a"]) <= 64
    meter.merged("d.a", 1_000)
    mirror = meter.measured().mirror
    assert mirror is not None
    assert mirror["p50"] == pytest.approx(500.0, rel=0.1)
    assert mirror["max"] == pytest.approx(1_001.0, rel=0.06)


def test_a_log_that_is_not_appended_for_long_costs_no_memory(now: Now) -> None:
    """A further sink may be away for hours; all its changes count when it is back."""
    meter = FreshnessMeter()
    for epoch in range(1, 1_001):
        meter.committed(epoch, CommitTimes(now.s - 1, now.s), {"d.a": 1, "d.b": 2}, ())
        now.s += 1
    assert len(meter._waiting) <= 64
    meter.appended(999, {"d.b"})
    log = meter.measured().log
    assert log is not None
    assert log["p50"] == pytest.approx(500.0, rel=0.1)
    assert log["max"] == pytest.approx(1_001.0, rel=0.06)


def test_a_sink_that_is_faster_than_the_news_of_an_epoch_counts_it_at_once(now: Now) -> None:
    """It reads the ledger. The epoch does not wait for the next one to be counted, except for a table that failed."""
    meter = FreshnessMeter()
    meter.appended(3, {"d.b"})
    meter.committed(3, CommitTimes(now.s - 2.0, now.s - 1.0), {"d.a": 1}, ())
    log = meter.measured().log
    assert log is not None
    assert log["max"] == pytest.approx(2.0, rel=0.06)
    now.s += 1_000.0
    meter.committed(3, CommitTimes(now.s - 2.0, now.s - 1.0), {"d.b": 1}, ())
    assert meter.measured().log is None
