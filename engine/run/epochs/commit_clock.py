"""Dates the commits of an epoch's changes, by the moments when the binlog's end was asked for."""

from collections import Counter
from collections.abc import Iterable, Mapping

from engine.base import clock
from engine.capture.reports import RangeReport
from engine.decode.schema import TM_TS
from engine.destination.freshness import CommitTimes
from engine.source.measured_ends import MeasuredEnds
from engine.source.positions import Position


class CommitClock:
    """Its times are of `clock.monotonic_s`."""

    def __init__(self) -> None:
        self._ends = MeasuredEnds()

    def measured(self, end: Position, asked_s: float) -> None:
        """Note an end of the binlog. asked_s: the time before it was read."""
        self._ends.measured(end, asked_s)

    def times(
        self, begin: Position, end: Position, reports: Iterable[RangeReport], offset_s: float
    ) -> CommitTimes | None:
        """When the changes in (begin, end] were committed; None if nothing dates them.

        offset_s: `clock.monotonic_s` less the source's clock. It dates what was committed before the first end was
        asked for, by the changes' own times.
        """
        first_s, last_s = self._ends.reached_s(begin), self._ends.logged_s(end)
        if first_s:
            return CommitTimes(first_s, last_s or clock.monotonic_s())
        files = [file for report in reports for written in report.tables.values() for file in written.files]
        times = [
            bounds[TM_TS] / 1e6 + offset_s for file in files for bounds in (file.low, file.high) if TM_TS in bounds
        ]
        return CommitTimes(min(times), max(times)) if times else None


def changes_by_table(reports: Iterable[RangeReport]) -> Mapping[str, int]:
    """How many changes the tables had."""
    changes = Counter[str]()
    for report in reports:
        changes.update({name: sum(written.kinds) for name, written in report.tables.items()})
    return changes
