"""The transactions of a binlog range: when each event was committed, and under which GTID.

A GTID consists of a source and a number. There are few sources and many numbers, so an event refers to its source by an
index into `sources`, which contains the text before the number: `uuid:` or `uuid:tag:` on MySQL, `domain-server-` on
MariaDB.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.decode.binlog_events import BEGINS, Kind, among
from engine.decode.framing import Offsets, words
from engine.decode.gtid import GtidPosition, Gtids, GtidSet, gtid_set_of, united
from engine.decode.gtid_events import read_gtid_list, read_previous_gtids, read_tagged_gtid, sid_text
from engine.decode.stream import EventBatch

_HEADS = (Kind.FORMAT_DESCRIPTION, Kind.PREVIOUS_GTIDS, Kind.MARIA_GTID_LIST)
TS, SOURCE, NUMBER = 0, 1, 2
"""Column indexes of `TransactionFacts.table`."""


@dataclass(frozen=True)
class TransactionFacts:
    """For each event of a run, its transaction's time, source and number, in this order.

    The number is 0 if it has no GTID.
    """

    table: npt.NDArray[np.int64]
    """One row per transaction."""
    of: Offsets
    """For each event, its transaction's row in `table`."""

    def at(self, events: Offsets) -> "TransactionFacts":
        """The facts of these events."""
        return TransactionFacts(self.table, self.of[events])

    def lines(self) -> npt.NDArray[np.int64]:
        """The facts, one row per event."""
        return self.table[self.of]


class Transactions:
    """Tracks the transactions of one binlog range from run to run.

    count, anonymous, bytes: the number of transactions, of those without a GTID, and of bytes of events. last_ts: when
    the last event was written, in seconds since 1970. gtids: of the transactions read, and of those that the heads of
    the files read list. complete: a file's head was read, so `gtids` contains all GTIDs of the log. births: per file,
    the time of its FORMAT_DESCRIPTION event, which distinguishes two files of the same name. sources: see the module.
    """

    def __init__(self, *, mariadb: bool) -> None:
        self._mariadb = mariadb
        self.count = 0
        self.anonymous = 0
        self.bytes = 0
        self.last_ts = 0
        self.gtids: Gtids = GtidPosition() if mariadb else GtidSet()
        self.complete = False
        self.births: dict[str, int] = {}
        self.sources: list[str] = [""]
        self._known_headers: dict[tuple[int, int] | str, int] = {}
        self._open_transaction = np.zeros((1, 3), np.int64)  # facts of the transaction that is open

    def of(self, run: EventBatch) -> "TransactionFacts":
        """The facts of a run's events."""
        headers = run.headers
        self.read_heads(run)
        mask = among(headers.kind, BEGINS)
        begins = np.flatnonzero(mask)
        table = np.zeros((len(begins) + 1, 3), np.int64)
        table[0] = self._open_transaction
        table[1:, TS] = headers.timestamp[begins]
        self._identify(run, begins, table[1:])
        self.count += len(begins)
        self.bytes += int(headers.size.sum())
        if len(headers):
            self.last_ts = max(self.last_ts, int(headers.timestamp[-1]))
        self._open_transaction = table[-1:].copy()
        return TransactionFacts(table, np.cumsum(mask))

    def read_heads(self, run: EventBatch) -> None:
        """Read the events at the head of a file. (A FORMAT_DESCRIPTION event also begins every dump.)"""
        kind = run.headers.kind
        for n in np.flatnonzero(among(kind, _HEADS)).tolist():
            if kind[n] == Kind.FORMAT_DESCRIPTION:
                self.births[run.file] = int(run.headers.timestamp[n])
            else:
                body, mysql = run.body(n), kind[n] == Kind.PREVIOUS_GTIDS
                self._add(read_previous_gtids(body) if mysql else read_gtid_list(body).position)
                self.complete = True

    def _add(self, gtids: Gtids) -> None:
        self.gtids = united(self.gtids, gtids)

    def _identify(self, run: EventBatch, begins: Offsets, table: npt.NDArray[np.int64]) -> None:
        body, loads = run.headers.body[begins], words(run.buffer)
        if self._mariadb:
            # Body: number (8), domain (4), flags; the server id is in the header.
            domain, server = loads[body + 8] & np.uint64(0xFFFFFFFF), loads[body - 14] & np.uint64(0xFFFFFFFF)
            table[:, SOURCE] = self._sources(domain, server)
            table[:, NUMBER] = loads[body].view(np.int64)
            self._add(_last_of_each(domain, server, table[:, NUMBER]))
            return
        # Body: flags (1), server uuid (16), number (8).
        low, high, number = loads[body + 1], loads[body + 9], loads[body + 17].view(np.int64)
        named = run.headers.kind[begins] == Kind.GTID
        table[named, SOURCE] = self._sources(low[named], high[named])
        table[named, NUMBER] = number[named]
        for n in np.flatnonzero(run.headers.kind[begins] == Kind.GTID_TAGGED).tolist():
            tagged = read_tagged_gtid(run.body(int(begins[n])))
            table[n, SOURCE], table[n, NUMBER], named[n] = self._source(tagged.source), tagged.number, True
        self.anonymous += int((~named).sum())
        self._add(gtid_set_of(self.sources, table[named, SOURCE], table[named, NUMBER]))

    def _sources(self, a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The indexes of the sources with these two halves. A binlog range has one source, rarely a few."""
        new = np.flatnonzero((np.diff(a, prepend=a[:1] + 1) != 0) | (np.diff(b, prepend=b[:1] + 1) != 0))
        numbers = [self._source((int(a[n]), int(b[n]))) for n in new.tolist()]
        return np.repeat(np.array(numbers, np.int64), np.diff(np.append(new, len(a))))

    def _source(self, halves: tuple[int, int] | str) -> int:
        """The index of the source with these two halves, or with this text."""
        if halves not in self._known_headers:
            self._known_headers[halves] = len(self.sources)
            self.sources.append(self._text(halves))
        return self._known_headers[halves]

    def _text(self, halves: tuple[int, int] | str) -> str:
        if isinstance(halves, str):
            return halves
        return f"{halves[0]}-{halves[1]}-" if self._mariadb else f"{sid_text(*halves)}:"


def _last_of_each(
    domain: npt.NDArray[np.uint64], server: npt.NDArray[np.uint64], number: npt.NDArray[np.int64]
) -> GtidPosition:
    """The GTID position after these transactions."""
    domains, back = np.unique(domain[::-1], return_index=True)
    at = len(domain) - 1 - back
    return GtidPosition(
        {d: (s, n) for d, s, n in zip(domains.tolist(), server[at].tolist(), number[at].tolist(), strict=True)}
    )
