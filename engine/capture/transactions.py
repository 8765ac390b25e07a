"""The transactions of a stretch: when each event was committed, and under which GTID.

A GTID is a source and a number. Sources are few and numbers many, so an event carries the number of its source in `sources`, which
holds the text in front of the transaction's number: `uuid:` on MySQL, `domain-server-` on MariaDB.
"""

import numpy as np
import numpy.typing as npt

from engine.decode.events import BEGINS, Kind
from engine.decode.framing import Offsets, words
from engine.decode.gtid import GtidSet, gtid_set_of, read_previous_gtids, sid_text
from engine.decode.stream import Run

TS, SOURCE, NUMBER = 0, 1, 2
"""Columns of what `Transactions.of` gives."""


class Transactions:
    """Follows the transactions of one stretch from run to run.

    count, bytes: how many transactions and how many bytes of events were seen. last_ts: when the last event was written, seconds
    since 1970. gtids: the set of what was seen and of what the files seen begin with. sources: see above.
    """

    def __init__(self, *, mariadb: bool) -> None:
        self._mariadb = mariadb
        self.count, self.bytes, self.last_ts = 0, 0, 0
        self.gtids = GtidSet()
        self.sources: list[str] = [""]
        self._known: dict[tuple[int, int], int] = {}
        self._open = np.zeros((1, 3), np.int64)  # of the transaction that goes on

    def of(self, run: Run) -> npt.NDArray[np.int64]:
        """For each event its transaction's time, source and number, in this order; number 0 where it has no GTID."""
        headers = run.headers
        for n in np.flatnonzero(headers.kind == Kind.PREVIOUS_GTIDS).tolist():
            self.gtids = self.gtids.union(read_previous_gtids(run.body(n)))
        begins = np.flatnonzero(np.isin(headers.kind, BEGINS))
        table = np.zeros((len(begins) + 1, 3), np.int64)
        table[0] = self._open
        table[1:, TS] = headers.timestamp[begins]
        self._identify(run, begins, table[1:])
        self.count += len(begins)
        self.bytes += int(headers.size.sum())
        if len(headers):
            self.last_ts = max(self.last_ts, int(headers.timestamp[-1]))
        self._open = table[-1:].copy()
        return np.asarray(table[np.searchsorted(begins, np.arange(len(headers)), side="right")])

    def _identify(self, run: Run, begins: Offsets, table: npt.NDArray[np.int64]) -> None:
        body, loads = run.headers.body[begins], words(run.buffer)
        if self._mariadb:
            # Body: number (8), domain (4), flags; the server id stands in the header.
            domain, server = loads[body + 8] & np.uint64(0xFFFFFFFF), loads[body - 14] & np.uint64(0xFFFFFFFF)
            table[:, SOURCE] = self._sources(domain, server)
            table[:, NUMBER] = loads[body].view(np.int64)
            return
        # Body: flags (1), server uuid (16), number (8).
        low, high, number = loads[body + 1], loads[body + 9], loads[body + 17].view(np.int64)
        named = run.headers.kind[begins] == Kind.GTID
        table[named, SOURCE] = self._sources(low[named], high[named])
        table[named, NUMBER] = number[named]
        self.gtids = self.gtids.union(gtid_set_of(self.sources, table[named, SOURCE], number[named]))

    def _sources(self, a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The numbers of the sources with these two halves; a stretch has one, seldom a few."""
        new = np.flatnonzero((np.diff(a, prepend=a[:1] + 1) != 0) | (np.diff(b, prepend=b[:1] + 1) != 0))
        numbers = [self._source(int(a[n]), int(b[n])) for n in new.tolist()]
        return np.repeat(np.array(numbers, np.int64), np.diff(np.append(new, len(a))))

    def _source(self, a: int, b: int) -> int:
        if (a, b) not in self._known:
            self._known[a, b] = len(self.sources)
            self.sources.append(f"{a}-{b}-" if self._mariadb else f"{sid_text(a, b)}:")
        return self._known[a, b]
