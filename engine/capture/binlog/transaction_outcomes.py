"""Transaction outcomes: which of the logged rows count, and at which position.

Servers log some rows before it is decided whether they count, and some that never count:

* **Rolled back.** A transaction that cannot be rolled back without a trace (MariaDB: it dropped a temporary table, or wrote to a
  table of another engine) is logged with `ROLLBACK` or `ROLLBACK TO savepoint` in it. It never contains rows of tables that cannot
  roll back: in row format both servers log those at once, as a separate transaction. So its rows do not count, from its start or
  from the `SAVEPOINT` of that name up to the rollback. A trigger's savepoint shadows one of the same name and is logged alike,
  while in a session it would replace it (seen on MariaDB). If that name is rolled back to, rows between the two are doubtful.
* **Prepared.** The rows of an XA transaction are logged at `XA PREPARE`. They count at `XA COMMIT`, perhaps files later, or never.
  They are kept (`prepared_rows`), and follow their COMMIT. What was not kept is read again when it is committed. Those prepared
  before the binlog range are found by `earlier_transactions`, so any range can be read without what came before it. (MySQL logs
  `XA COMMIT … ONE PHASE` as a PREPARE that says so: its rows count at once.)
* **Torn.** A server that died during a write leaves an unfinished transaction at the end of a file, and rolls it back when it
  restarts.

The outcome is only known at a transaction's end. So the last transaction of a block is held back until it ends, as long as it is
small. If a larger one concerns a captured table, the log is read ahead to its end once, before its rows are yielded. So rows never
have to be revoked, and memory is bounded.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.capture.binlog.earlier_transactions import EarlierTransactions, purged
from engine.capture.binlog.prepared_rows import NOTHING, Kept, PreparedRows, compacted, spliced
from engine.capture.binlog.xa_events import decision, opens_or_ends
from engine.decode.binlog_events import BEGINS, HEADER, ROWS, Kind, among, read_xa_prepare
from engine.decode.framing import PADDING, words
from engine.decode.query_event import read_query
from engine.decode.stream import EventBatch
from engine.decode.unfold import STATEMENTS, unfolded
from engine.errors import SourceLostError
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.xa_places import MOST_RECENT, Prepared, XaPlaces, Xid

MOST = 16 << 20
"""Bytes of an open transaction that are held back; beyond them the log is read ahead."""
_TABLE_ID = np.uint64((1 << 48) - 1)
_BEGIN, _COMMIT = (np.uint64(int.from_bytes(b"\0" + word, "little")) for word in (b"BEGIN", b"COMMIT"))
_CHECKSUM = 4
_XA_PREPARE = int(Kind.XA_PREPARE)  # an enum's attribute is slow, and this is looked at for each XA transaction
_PREPARED, _UNDONE, _DOUBTFUL = "prepared", "undone", "doubtful"
_SAVEPOINT = re.compile(r"(?i)SAVEPOINT\s+(.*?)\s*;?\s*$", re.DOTALL)
_ROLLBACK = re.compile(
    r"(?i)ROLLBACK(?:\s+WORK)?(?:\s+TO(?:\s+SAVEPOINT)?\s+(.*?))?\s*(?:/\*.*\*/)?\s*;?\s*$", re.DOTALL
)


class Log(Protocol):
    """The binlog that contains the range, for reading parts of it again."""

    def read(self, start: Position, end: Position) -> Iterator[EventBatch]:
        """Yield the events from `start` to `end`, across files, with artificial events. Each run is valid until the next."""

    def files(self) -> Sequence[str]:
        """The binlog files, oldest first."""


@dataclass(frozen=True)
class _Commit:
    """A COMMIT of an XA transaction: the event's number, the transaction, and what is known of its PREPARE in the range."""

    number: int
    xid: Xid
    prepared: tuple[Prepared, int] | None


@dataclass(frozen=True)
class Judged:
    """A run without the rows that do not count."""

    run: EventBatch
    undone: npt.NDArray[np.uint64]
    """Table ids of rows that were rolled back."""
    doubtful: npt.NDArray[np.uint64]
    """Table ids of rows for which it is unknown whether they were rolled back."""
    committed: Prepared | None = None
    """The XA transaction that the run's last event commits, if its rows must be read again."""


class TransactionOutcomes:
    """Determines transaction outcomes in a log from `start` to `end`, both between transactions.

    captured: the table ids of captured tables that a run names. prepared_count: for reading a prepared transaction that was
    committed. places: of transactions prepared before `start`; all of those that were prepared last before it, or none.
    """

    def __init__(
        self,
        start: Position,
        end: Position,
        log: Log | None,
        captured: Callable[[EventBatch], npt.NDArray[np.uint64]],
        *,
        prepared_count: bool = False,
        places: XaPlaces | None = None,
    ) -> None:
        self.start, self.end, self.log = start, end, log
        self._captured, self._prepared_count = captured, prepared_count
        self._file, self._next = start.file, 0  # events are numbered in the order they arrive
        self._begin, self._begin_at, self._open, self._has_rows, self._bytes = -1, start, False, False, 0
        self._known_end = False  # whether the outcome of the open transaction is known
        self._savepoints: dict[str, int] = {}
        self._shadows: dict[str, list[tuple[int, int]]] = {}
        self._dropped: list[tuple[int, int, str]] = []  # from, to, why
        self._commits: deque[_Commit] = deque()
        self._prepared: dict[Xid, tuple[Prepared, int]] = {}  # the place, and the number of its first event
        self._recent: dict[Xid, Prepared] = {}
        self._decided: set[Xid] = set()  # of those prepared before `start`
        self._rows = PreparedRows()
        self._earlier = EarlierTransactions(start, places or XaPlaces(), self._scanned, MOST)
        self._held: list[tuple[int, EventBatch]] = []

    def judge(self, run: EventBatch) -> Iterator[Judged]:
        """Yield the part of the log up to the end of this run whose outcome is known; `flush` yields the rest."""
        first = self._next
        if not len(run.headers):
            return
        self._record(run)
        if not self._open:
            yield from self._judged((*self._pop_held(), (first, run)))
            return
        split_at = self._begin - first
        if split_at >= 0:
            yield from self._judged((*self._pop_held(), (first, run.slice(0, split_at))))
            first, run = self._begin, run.slice(split_at, len(run.headers))
        self._bytes += _span(run)
        if self._bytes <= MOST:
            self._held.append((first, _copied(run)))
            return
        if not self._known_end and any(len(self._captured(part)) for _, part in (*self._held, (first, run))):
            self._look_ahead()
        yield from self._judged((*self._pop_held(), (first, run)))

    def flush(self, *, torn: bool = False) -> Iterator[Judged]:
        """Yield what was held back. torn: the file of an open transaction has ended.

        Raises SourceLostError if the binlog range ends inside a transaction that the server may still be writing.
        """
        if self._open and self._has_rows and self.log is not None and not self._prepared_count:
            if not torn and not self._file_ended(self.log):
                raise SourceLostError(
                    f"The binlog range that ends at {self.end} ends inside a transaction that began at {self._begin_at}.",
                    detail="Its rows count only when it is complete. Nothing of the binlog range was published.",
                    hint="Report this with the server's version.",
                )
            self._tear()
        self._open = False
        yield from self._judged(self._pop_held())

    def _file_ended(self, log: Log) -> bool:
        """Whether the file of the open transaction has no more events. Its size does not tell: encrypted files are larger."""
        if file_number(self._file) < file_number(self.end.file):
            return True
        after = next((name for name in log.files() if file_number(name) > file_number(self._file)), None)
        if after is None:
            return False
        runs = log.read(self.end, Position(after, FIRST_OFFSET))
        return not any(run.file == self._file and (run.offset > self.end.offset).any() for run in runs)

    def read(self) -> Iterator[Judged]:
        """Yield the whole log from `start` to `end`."""
        assert self.log is not None
        for run in self.log.read(self.start, self.end):
            for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
                yield from self.judge(plain.run)
        yield from self.flush()

    @property
    def places(self) -> XaPlaces:
        """The XA transactions that were prepared in the range: those that were not decided there, and the last of the others."""
        return XaPlaces({xid: place for xid, (place, _) in self._prepared.items()}, self._recent)

    @property
    def undecided(self) -> list[Xid]:
        """The XA transactions that were prepared in the range and not decided there."""
        return list(self._prepared)

    @property
    def decided(self) -> set[Xid]:
        """The XA transactions that were prepared before the range and decided in it."""
        return self._decided

    def scan(self) -> None:
        """Read the log from `start` to `end` for the XA transactions prepared and not decided there, and keep their rows."""
        assert self.log is not None
        if self.start.order >= self.end.order:
            return
        for run in self.log.read(self.start, self.end):
            for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
                first = self._next
                self._record(plain.run)
                self._keep(first, plain.run)
                for commit in self._commits:
                    if commit.prepared is not None:
                        self._rows.drop(commit.prepared[1])
                self._commits.clear()
                self._dropped.clear()

    def take(self, xid: Xid) -> tuple[Prepared, Kept | str | None] | None:
        """After `scan`: the place of a transaction, and its rows if they were kept. Forgets it."""
        entry = self._prepared.pop(xid, None)
        return None if entry is None else (entry[0], self._rows.take(entry[1]))

    def _pop_held(self) -> list[tuple[int, EventBatch]]:
        held, self._held = self._held, []
        return held

    def _record(self, run: EventBatch) -> None:
        """Record what a run says about transaction outcomes."""
        kind, first = run.headers.kind, self._next
        if run.file != self._file:
            if self._open and self._has_rows:
                self._tear()
            self._file, self._open = run.file, False
        begins = np.flatnonzero(among(kind, BEGINS))
        ends = among(kind, (Kind.XID, Kind.XA_PREPARE))
        queries = np.flatnonzero(kind == Kind.QUERY)
        tail = words(run.buffer)[run.headers.end[queries] - 8]
        commits = tail >> np.uint64(8) == _COMMIT
        ends[queries[commits]] = True
        others = queries[~commits & (tail >> np.uint64(16) != _BEGIN)]
        others = others[~opens_or_ends(run, others)]
        events = np.union1d(others, np.flatnonzero(kind == Kind.XA_PREPARE))
        for n, before in zip(events.tolist(), np.searchsorted(begins, events, side="right").tolist(), strict=True):
            if before:
                self._enter_transaction(run, int(begins[before - 1]), first)
            ends[n] |= self._read_event(run, n, first + n)
        if len(begins):
            self._enter_transaction(run, int(begins[-1]), first)
        last_end = int(np.flatnonzero(ends)[-1]) if ends.any() else -1
        if len(begins) and begins[-1] > last_end:
            self._open = True
        elif last_end >= 0:
            self._open = False
        rows = among(kind[max(self._begin - first, 0) :], ROWS).any()
        self._has_rows = bool(rows) or (self._has_rows and self._begin < first)
        self._next = first + len(kind)

    def _enter_transaction(self, run: EventBatch, begin: int, first: int) -> None:
        if self._begin == first + begin:
            return
        self._begin, self._known_end, self._has_rows, self._bytes = first + begin, False, False, 0
        self._begin_at = Position(run.file, int(run.offset[begin] - run.headers.size[begin]))
        self._savepoints.clear()
        self._shadows.clear()

    def _read_event(self, run: EventBatch, n: int, number: int) -> bool:
        """Record one event. Returns whether it ends its transaction."""
        if run.headers.kind[n] == _XA_PREPARE:
            xid, one_phase = read_xa_prepare(run.body(n))
            if not one_phase:
                self._prepared[xid] = Prepared(self._begin_at, Position(run.file, int(run.offset[n]))), self._begin
                if not self._prepared_count:
                    self._dropped.append((self._begin, number, _PREPARED))
            return True
        body = run.body(n)
        if (decided := decision(body)) is not None:
            self._decide(*decided, number)
            return True
        statement = read_query(body).statement.strip()
        if match := _SAVEPOINT.match(statement):
            before = self._savepoints.pop(name := _name(match[1]), None)
            self._savepoints[name] = number
            if before is not None:
                self._shadows.setdefault(name, []).append((before, number))
        elif match := _ROLLBACK.match(statement):
            if match[1] is None:
                self._dropped.append((self._begin, number, _UNDONE))
                return True
            self._roll_back_to(run, n, _name(match[1]), number)
        return False

    def _decide(self, commits: bool, xid: Xid, number: int) -> None:
        prepared = self._prepared.pop(xid, None)
        if prepared is None:
            self._decided.add(xid)
        else:
            self._recent.pop(xid, None)
            self._recent[xid] = prepared[0]
            if len(self._recent) > MOST_RECENT:
                del self._recent[next(iter(self._recent))]
        if commits:
            self._commits.append(_Commit(number, xid, prepared))
        elif prepared is not None:
            self._rows.drop(prepared[1])

    def _roll_back_to(self, run: EventBatch, n: int, name: str, number: int) -> None:
        if name not in self._savepoints:
            raise SourceLostError(
                f"The binlog {run.file}:{run.offset[n]} rolls a transaction back to a savepoint that it does not contain: {name}.",
                detail="Tidemark cannot tell which of the transaction's rows count. The position stays before the transaction.",
                hint="Resnapshot the tables. If it happens again, report this with the server's version.",
            )
        self._dropped.append((self._savepoints[name], number, _UNDONE))
        self._dropped += [(a, b, _DOUBTFUL) for a, b in self._shadows.get(name, ())]
        for later in list(self._savepoints)[list(self._savepoints).index(name) + 1 :]:
            del self._savepoints[later]

    def _tear(self) -> None:
        self._dropped.append((self._begin, self._next, _UNDONE))

    def _look_ahead(self) -> None:
        """Read ahead to find the outcome of the open transaction, by the same rules."""
        assert self.log is not None, "a binlog range that is read in blocks can read its log again"
        ahead = TransactionOutcomes(
            self._begin_at, self.end, None, lambda _: _NO_TABLES, prepared_count=self._prepared_count
        )
        for run in self.log.read(self._begin_at, self.end):
            for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
                if ahead._begin < 0:
                    begins = np.flatnonzero(among(plain.run.headers.kind, BEGINS))
                    if not len(begins):
                        continue
                    opened = int(begins[0])
                    ahead._record(plain.run.slice(opened, len(plain.run.headers)))
                else:
                    ahead._record(plain.run)
                if not ahead._open or ahead._begin > 0:
                    break
            else:
                continue
            break
        else:
            ahead._tear()  # it has not ended; `flush` refuses it if it still may
        self._known_end = True
        # `ahead` numbers events from the transaction's start. Entries after its end belong to other transactions.
        end = ahead._begin if ahead._begin > 0 else ahead._next
        self._dropped += [(self._begin + a, self._begin + b, u) for a, b, u in ahead._dropped if a < end]

    def _judged(self, runs: list[tuple[int, EventBatch]] | tuple[tuple[int, EventBatch], ...]) -> Iterator[Judged]:
        for first, run in runs:
            self._keep(first, run)
            stop = first + len(run.headers)
            at, splices, size = first, list[tuple[int, Kept]](), 0
            while self._commits and self._commits[0].number < stop:
                commit = self._commits.popleft()
                after = commit.number + 1
                place, rows = self._rows_of(commit, run.slice(at - first, after - first))
                if isinstance(rows, Kept) and rows.run.file == run.file:
                    splices.append((after - at, rows))
                    size += rows.bytes
                elif rows != NOTHING:
                    part = self._without_uncounted(at, run.slice(at - first, after - first), splices)
                    yield replace(part, committed=place)
                    at, splices, size = after, [], 0
                if size > MOST:
                    yield self._without_uncounted(at, run.slice(at - first, after - first), splices)
                    at, splices, size = after, [], 0
            if at < stop:
                yield self._without_uncounted(at, run.slice(at - first, stop - first), splices)

    def _masks(self, first: int, run: EventBatch) -> dict[str, npt.NDArray[np.bool_]]:
        """Which events of a run are dropped, by reason."""
        stop = first + len(run.headers)
        masks = {why: np.zeros(len(run.headers), bool) for why in (_PREPARED, _UNDONE, _DOUBTFUL)}
        for a, b, why in self._dropped:
            if a < stop and b > first:
                masks[why][max(a - first, 0) : b - first] = True
        return masks

    def _without_uncounted(self, first: int, run: EventBatch, splices: Sequence[tuple[int, Kept]] = ()) -> Judged:
        """A run without the rows that do not count, and with kept rows spliced in behind so many of its events."""
        stop, masks = first + len(run.headers), self._masks(first, run)
        self._dropped = [entry for entry in self._dropped if entry[1] > stop]
        rows = among(run.headers.kind, ROWS)
        uncounted, undone = rows & (masks[_PREPARED] | masks[_UNDONE]), rows & masks[_UNDONE]
        undone_ids, doubtful_ids = _tables(run, undone), _tables(run, rows & masks[_DOUBTFUL] & ~uncounted)
        if uncounted.any():
            counted = np.cumsum(~uncounted)
            splices = [(int(counted[behind - 1]), kept) for behind, kept in splices]
            run = replace(run, headers=run.headers.take(~uncounted), offset=run.offset[~uncounted])
        if splices:
            run = spliced(run, splices)
        return Judged(run, undone_ids, doubtful_ids)

    def _keep(self, first: int, run: EventBatch) -> None:
        """Keep the rows of the transactions that a run prepares and contains whole, unless they were rolled back already."""
        stop = first + len(run.headers)
        wanted = {number for _, number in self._prepared.values()}
        wanted |= {commit.prepared[1] for commit in self._commits if commit.prepared is not None}
        whole = [(a, b) for a, b, why in self._dropped if why == _PREPARED and a >= first and b <= stop and a in wanted]
        if not whole:
            return
        masks, kind = self._masks(first, run), run.headers.kind
        maps, rows = masks[_PREPARED] & (kind == Kind.TABLE_MAP), masks[_PREPARED] & among(kind, ROWS) & ~masks[_UNDONE]
        captured = self._captured(replace(run, headers=run.headers.take(maps), offset=run.offset[maps]))
        if not len(captured):
            self._rows.keep(None, [(a, 0, 0) for a, _ in whole])
            return
        chosen = maps | rows
        chosen[chosen] = np.isin(words(run.buffer)[run.headers.body[chosen]] & _TABLE_ID, captured)
        doubtful = np.concatenate([[0], np.cumsum(chosen & masks[_DOUBTFUL])])
        count = np.concatenate([[0], np.cumsum(chosen)])
        parts = [
            (a, int(count[a - first]), int(count[b - first]))
            for a, b in whole
            if doubtful[a - first] == doubtful[b - first]
        ]
        self._rows.keep(compacted(run, np.flatnonzero(chosen)) if chosen.any() else None, parts)

    def _rows_of(self, commit: _Commit, run: EventBatch) -> tuple[Prepared, Kept | str | None]:
        """The place of a transaction that a run's last event commits, and its rows if they were kept."""
        if commit.prepared is not None:
            return commit.prepared[0], self._rows.take(commit.prepared[1])
        if self.log is not None and (found := self._earlier.find(commit.xid, self.log)) is not None:
            return found
        raise purged(commit.xid, f"{run.file}:{run.offset[-1]}")

    def _scanned(self, start: Position, end: Position) -> "TransactionOutcomes":
        """The transactions prepared in another part of the log, and not decided there."""
        earlier = TransactionOutcomes(start, end, self.log, self._captured)
        earlier.scan()
        return earlier


_NO_TABLES = np.zeros(0, np.uint64)


def _tables(run: EventBatch, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """The table ids of the chosen row events."""
    return np.unique(words(run.buffer)[run.headers.body[chosen]] & np.uint64((1 << 48) - 1))


def _name(text: str) -> str:
    """A savepoint's name, casefolded: servers ignore case in them."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in '`"'  # by the session's ANSI_QUOTES
    return (text[1:-1].replace(text[0] * 2, text[0]) if quoted else text).casefold()


def _bounds(run: EventBatch) -> tuple[int, int]:
    return int(run.headers.body.min()) - HEADER - 1, int(run.headers.end.max()) + _CHECKSUM


def _span(run: EventBatch) -> int:
    low, high = _bounds(run)
    return high - low


def _copied(run: EventBatch) -> EventBatch:
    """A copy of the run that stays valid after the next one arrives."""
    low, high = _bounds(run)
    buffer = np.zeros(high - low + PADDING, np.uint8)
    buffer[: high - low] = run.buffer[low:high]
    return replace(run, buffer=buffer, headers=run.headers.moved(-low))
