"""Between which times an epoch's changes were committed."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.destination.freshness import CommitTimes
from engine.run.epochs.commit_clock import CommitClock, changes_by_table
from engine.source.positions import Position


def at(offset: int) -> Position:
    """A position."""
    return Position("b.000001", offset)


def report(counts: tuple[int, ...] = (0, 0, 0, 0), *bounds: dict[str, Any]) -> Any:
    """Of a range with changes to one table, in files with these least and largest values."""
    files = [SimpleNamespace(low=low, high=low) for low in bounds]
    return SimpleNamespace(tables={"d.t": SimpleNamespace(kinds=counts, files=files)})


def test_changes_were_committed_between_two_questions() -> None:
    """After the last answer that was their range's begin, before the first one that has its end."""
    commits = CommitClock()
    for end, asked_s in ((100, 10.0), (100, 11.0), (200, 12.0), (300, 13.0)):
        commits.measured(at(end), asked_s)
    assert commits.times(at(100), at(200), [], 0.0) == CommitTimes(11.0, 12.0)
    assert commits.times(at(200), at(250), [], 0.0) == CommitTimes(12.0, 13.0)
    assert commits.times(at(250), at(300), [], 0.0) == CommitTimes(12.0, 13.0)


def test_a_backlog_is_dated_by_its_changes() -> None:
    """Nobody had asked for the binlog's end when they were committed."""
    commits = CommitClock()
    commits.measured(at(900), 5_000.0)
    old = report((2, 0, 0, 0), {"_tm_ts": 1_000_000_000, "id": 1}, {"_tm_ts": 1_060_000_000}, {"id": 2})
    found = commits.times(at(100), at(500), [old], 5_000.0 - 2_000.0)
    assert found == CommitTimes(4_000.0, 4_060.0)
    assert commits.times(at(100), at(500), [report()], 0.0) is None, "nothing dates it"


def test_an_end_that_was_not_measured_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the server is another one since."""
    commits = CommitClock()
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: 30.0)
    commits.measured(at(100), 10.0)
    assert commits.times(at(100), at(500), [], 0.0) == CommitTimes(10.0, 30.0)


def test_changes_are_counted_by_table() -> None:
    """All kinds, over the parts of a range."""
    assert changes_by_table([report((1, 2, 2, 4)), report((1, 0, 0, 0))]) == {"d.t": 10}
