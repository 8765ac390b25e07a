"""Finds the rows of XA transactions that were prepared before a binlog range and are committed in it.

What is known (`XaPlaces`) may be as of another position than the range's start.

* **Then or later.** The place of a transaction is its last PREPARE before the start. Places that are near are read
  again, once for all. A place far away is read alone, when its transaction is committed.
* **Earlier.** An id may have been used again in between. So the log is read backwards from the start to there, file by
  file, and a little further, to where the transactions undecided then were prepared.

A transaction that is not known is searched for backwards, file by file. Each part of the log is read once for all
transactions.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from engine.base.errors import SourceLostError
from engine.capture.binlog.prepared_rows import KeptTransaction
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.xa_places import Prepared, XaPlaces, Xid

FoundTransaction = tuple[Prepared, KeptTransaction | str | None]
"""A transaction's place, and its rows if they were kept (`PreparedRows.take`)."""


class LogPart(Protocol):
    """The transactions prepared in a part of the log, and not decided there."""

    @property
    def places(self) -> XaPlaces: ...

    @property
    def decided_earlier(self) -> set[Xid]:
        """Those that were prepared before the part and decided in it."""

    def take(self, xid: Xid) -> FoundTransaction | None: ...


class Files(Protocol):
    """The binlog."""

    def files(self) -> Sequence[str]: ...


class EarlierTransactions:
    """The XA transactions prepared before `start`.

    places: those that are known. scan_part: reads a part of the log again. near_bytes: how far before a position is
    near.
    """

    def __init__(
        self, start: Position, places: XaPlaces, scan_part: Callable[[Position, Position], LogPart], near_bytes: int
    ) -> None:
        self._start = start
        self._places = places
        self._scan_part = scan_part
        self._near_bytes = near_bytes
        self._near_part: LogPart | None = None
        self._parts: dict[Position, LogPart] = {}
        self._decided_xids: set[Xid] = set()
        self._undecided_places: dict[Xid, Prepared] = {}
        late = places.at is None or places.at.order >= start.order
        self._at = start if late or places.at is None else places.at

    @property
    def undecided_places(self) -> dict[Xid, Prepared]:
        """The transactions undecided at `start`, as far as the log before it was read."""
        return self._undecided_places

    def find(self, xid: Xid, log: Files) -> FoundTransaction | None:
        """The transaction that a COMMIT in the range decides; None if the binlog no longer has its PREPARE."""
        late = self._at is self._start
        place = self._places.before(xid, self._start) if late else self._places.undecided.get(xid)
        if late and place is not None:
            return self._find_known(xid, place)
        edge = self._first_near(self._at)
        for begin, end in self._backwards(log, edge):
            if place is not None and end.order <= edge.order:
                return place, None
            if (transaction := self._part(begin, end).take(xid)) is not None:
                return transaction
        return None if place is None else (place, None)

    def _find_known(self, xid: Xid, place: Prepared) -> FoundTransaction:
        if not self._is_near(place, self._start):
            return place, None
        if self._near_part is None:
            self._near_part = self._scan_part(self._first_near(self._start), self._start)
        return self._near_part.take(xid) or (place, None)

    def _first_near(self, end: Position) -> Position:
        """Where the first of the known transactions near a position was prepared; the position if there is none."""
        places = [*self._places.undecided.values(), *self._places.recent.values()]
        near = (place.start for place in places if self._is_near(place, end))
        return min(near, key=lambda position: position.order, default=end)

    def _is_near(self, place: Prepared, end: Position) -> bool:
        return place.start.file == end.file and end.offset - self._near_bytes <= place.start.offset < end.offset

    def _backwards(self, log: Files, edge: Position) -> Iterator[tuple[Position, Position]]:
        """Yield the parts of the log before `start`, the last one first: files, divided at `edge`."""
        start = self._start
        files = [name for name in log.files() if file_number(name) <= file_number(start.file)]
        edges = {at.order: at for at in (*(Position(name, FIRST_OFFSET) for name in files), edge, start)}
        first = (file_number(files[0]), 0) if files else start.order
        yield from reversed([*pairwise(at for order, at in sorted(edges.items()) if first <= order <= start.order)])

    def _part(self, begin: Position, end: Position) -> LogPart:
        if begin not in self._parts:
            part = self._parts[begin] = self._scan_part(begin, end)
            for xid, place in part.places.undecided.items():
                if xid not in self._decided_xids:
                    self._undecided_places.setdefault(xid, place)
            self._decided_xids |= part.decided_earlier
        return self._parts[begin]


def purged_error(xid: Xid, at: str) -> SourceLostError:
    """The error for a COMMIT without its PREPARE."""
    gtrid, bqual, form = xid
    return SourceLostError(
        f"The binlog {at} commits an XA transaction whose rows it no longer contains: "
        f"X'{gtrid.hex()}',X'{bqual.hex()}',{form}.",
        detail="They were logged at its PREPARE, in a file that was purged. The position stays before the commit.",
        hint="Resnapshot the tables: tidemark redump SPEC --all (To avoid this, raise binlog_expire_logs_seconds above "
        "the age of prepared transactions.)",
    )
