"""Finds the rows of XA transactions that were prepared before a binlog range and are committed in it.

A place that is known and near is read again, once for all transactions prepared there. A known place far away is read alone, when
its transaction is committed. A place that is not known is searched for backwards, file by file.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.capture.binlog.prepared_rows import Kept
from engine.errors import SourceLostError
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.xa_places import Prepared, XaPlaces, Xid

Found = tuple[Prepared, Kept | str | None]
"""A transaction's place, and its rows if they were kept (`PreparedRows.take`)."""


class Scanned(Protocol):
    """The transactions prepared in a part of the log, and not decided there."""

    @property
    def undecided(self) -> list[Xid]: ...

    def take(self, xid: Xid) -> Found | None: ...


class Files(Protocol):
    """The binlog."""

    def files(self) -> Sequence[str]: ...


class EarlierTransactions:
    """The XA transactions prepared before `start`.

    places: those that are known. scanned: reads a part of the log again. near_bytes: so far before `start`, all are read at once.
    """

    def __init__(
        self, start: Position, places: XaPlaces, scanned: Callable[[Position, Position], Scanned], near_bytes: int
    ) -> None:
        self._start, self._places, self._scanned, self._near_bytes = start, places, scanned, near_bytes
        self._near: Scanned | None = None
        self._files: dict[str, Scanned] = {}

    def find(self, xid: Xid, log: Files) -> Found | None:
        """The transaction that a COMMIT in the range decides; None if the binlog no longer has its PREPARE."""
        place = self._places.before(xid, self._start)
        if place is None:
            return self._searched(xid, log)
        if not self._is_near(place):
            return place, None
        if self._near is None:
            known = [*self._places.undecided.values(), *self._places.recent.values()]
            first = min((p.start for p in known if self._is_near(p)), key=lambda position: position.order)
            self._near = self._scanned(first, self._start)
        return self._near.take(xid) or (place, None)

    def _is_near(self, place: Prepared) -> bool:
        start = self._start
        return place.start.file == start.file and start.offset - self._near_bytes <= place.start.offset < start.offset

    def _searched(self, xid: Xid, log: Files) -> Found | None:
        files = [name for name in log.files() if file_number(name) <= file_number(self._start.file)]
        ends = [*(Position(after, FIRST_OFFSET) for after in files[1:]), self._start]
        for name, end in reversed([*zip(files, ends, strict=True)]):
            if name not in self._files:
                self._files[name] = self._scanned(Position(name, FIRST_OFFSET), end)
            if (found := self._files[name].take(xid)) is not None:
                return found
        return None


def purged(xid: Xid, at: str) -> SourceLostError:
    """The error for a COMMIT without its PREPARE."""
    gtrid, bqual, form = xid
    return SourceLostError(
        f"The binlog {at} commits an XA transaction whose rows it no longer contains: X'{gtrid.hex()}',X'{bqual.hex()}',{form}.",
        detail="They were logged at its PREPARE, in a file that was purged. The position stays before the commit.",
        hint="Resnapshot the tables. To avoid this, raise binlog_expire_logs_seconds above the age of prepared transactions.",
    )
