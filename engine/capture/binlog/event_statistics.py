"""Statistics of a binlog range's events: counts by type, skipped events, the largest transaction.

Computed from headers alone.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.capture.binlog.prepared_rows import join
from engine.capture.binlog.transactions import NUMBER, SOURCE, Transactions
from engine.decode.binlog_events import BEGINS, Kind, among, kind_name, refuse_unknown
from engine.decode.stream import EventBatch
from engine.decode.unfold import Unfolded

_ARTIFICIAL = 0x20
"""LOG_EVENT_ARTIFICIAL_F: the event was made for the dump and is in no file."""


@dataclass
class _Transaction:
    """A transaction as far as it was read."""

    begin: EventBatch
    """Its first event."""
    bytes: int
    events: int

    def summary(self, *, mariadb: bool) -> dict[str, Any]:
        """As `EventStatistics.largest`. The GTID is read only here: most transactions are never the largest."""
        alone = Transactions(mariadb=mariadb)
        fact = alone.of(self.begin).lines()[0]
        gtid = f"{alone.sources[int(fact[SOURCE])]}{fact[NUMBER]}" if fact[NUMBER] else None
        at = int(self.begin.offset[0] - self.begin.headers.size[0])
        return {"gtid": gtid, "position": f"{self.begin.file}:{at}", "bytes": self.bytes, "events": self.events}


def _event(run: EventBatch, n: int) -> EventBatch:
    """One event of a run, in a buffer of its own."""
    return join([run.slice(n, n + 1)])


class EventStatistics:
    """Counts the events of a binlog range, run by run.

    bytes: size of the events as logged. damaged_events: how often a damaged event was requested again.
    unknown_events: counts by type of the events that this version does not know but may skip.
    """

    def __init__(self, *, mariadb: bool) -> None:
        self.bytes = 0
        self.damaged_events = 0
        self.unknown_events: Counter[str] = Counter()
        self._mariadb = mariadb
        self._kinds = np.zeros(256, np.int64)
        self._open: _Transaction | None = None
        self._largest: _Transaction | None = None

    def read_twice(self) -> None:
        """Count an event that was damaged and is requested again."""
        self.damaged_events += 1

    @property
    def events(self) -> dict[str, int]:
        """Event counts by type, including events inside compressed transactions."""
        return {kind_name(kind): int(self._kinds[kind]) for kind in np.flatnonzero(self._kinds).tolist()}

    @property
    def largest(self) -> dict[str, Any] | None:
        """The largest transaction: `gtid` (None if it has none), the `position` before it, `bytes` and `events`."""
        self._close()
        return None if self._largest is None else self._largest.summary(mariadb=self._mariadb)

    def add(self, run: EventBatch) -> None:
        """Add a run as received. Raises SourceLostError for an unknown event that must not be skipped."""
        headers = run.headers
        self.unknown_events += refuse_unknown(headers)
        real = (headers.flags & _ARTIFICIAL == 0) & (
            (headers.end_position != 0) | (headers.kind != Kind.FORMAT_DESCRIPTION)
        )
        self._kinds += np.bincount(headers.kind[real], minlength=256)
        size = np.where(real, headers.size, 0)
        self.bytes += int(size.sum())
        begins = np.flatnonzero(among(headers.kind, BEGINS))
        edges = np.concatenate([[0], begins, [len(headers)]])
        total = np.add.reduceat(np.append(size, 0), edges[:-1]) * (np.diff(edges) > 0)
        if self._open is not None:
            self._open.bytes += int(total[0])
            self._open.events += int(edges[1])
        if not len(begins):
            return
        self._close()
        whole = total[1:-1]
        if len(whole) and int(whole.max()) > self._most_bytes:
            n = int(whole.argmax())
            self._largest = _Transaction(_event(run, begins[n]), int(whole[n]), int(edges[n + 2] - edges[n + 1]))
        self._open = _Transaction(_event(run, begins[-1]), int(total[-1]), len(headers) - int(begins[-1]))

    def add_unfolded(self, plain: Unfolded, run: EventBatch) -> None:
        """Add the content of a run's compressed transactions. Raises SourceLostError as `add` does."""
        inner = plain.run.headers.kind[run.headers.kind[plain.source] == Kind.TRANSACTION_PAYLOAD]
        if len(inner):
            self.unknown_events += refuse_unknown(plain.run.headers)
            self._kinds += np.bincount(inner, minlength=256)

    @property
    def _most_bytes(self) -> int:
        return 0 if self._largest is None else self._largest.bytes

    def _close(self) -> None:
        if self._open is not None and self._open.bytes > self._most_bytes:
            self._largest = self._open
        self._open = None
