"""Transaction outcomes: which of the logged rows count, and at which position.

Servers log some rows before it is decided whether they count, and some that never count:

* **Rolled back.** A transaction that cannot be rolled back without a trace (MariaDB: it dropped a temporary table, or
  wrote to a table of another engine) is logged with `ROLLBACK` or `ROLLBACK TO savepoint` in it. It never contains rows
  of tables that cannot roll back: in row format both servers log those at once, as a separate transaction. So its rows
  do not count, from its start or from the `SAVEPOINT` of that name up to the rollback. A trigger's savepoint shadows
  one of the same name and is logged alike, while in a session it would replace it (seen on MariaDB). If that name is
  rolled back to, rows between the two are doubtful.
* **Prepared.** The rows of an XA transaction are logged at `XA PREPARE`. They count at `XA COMMIT`, perhaps files
  later, or never. They are kept (`prepared_rows`), and follow their COMMIT. What was not kept is read again when it is
  committed. Those prepared before the binlog range are found by `earlier_transactions`, so any range can be read
  without what came before it. (MySQL logs `XA COMMIT … ONE PHASE` as a PREPARE that says so: its rows count at once.)
* **Torn.** A server that died during a write leaves an unfinished transaction at the end of a file, and rolls it back
  when it restarts.

The outcome is only known at a transaction's end. So the last transaction of a block is held back until it ends, as long
as it is small. If a larger one concerns a captured table, the log is read ahead to its end once, before its rows are
yielded. So rows never have to be revoked, and memory is bounded.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.base.errors import SourceLostError
from engine.capture.binlog.earlier_transactions import EarlierTransactions, purged_error
from engine.capture.binlog.prepared_rows import NOTHING, KeptTransaction, PreparedRows, bounds, copy_events, join
from engine.capture.binlog.resolved_events import (
    Masks,
    Moves,
    ResolvedEvents,
    ResolvedRun,
    inside,
    none_within,
    of_tables,
    ranges,
)
from engine.capture.binlog.xa_decisions import EARLIER, Spans, XaDecisions, no_decisions
from engine.capture.binlog.xa_events import PREPARE, XaEvents, xa_events
from engine.decode.binlog_events import BEGINS, ROWS, Kind, among
from engine.decode.framing import Offsets, words
from engine.decode.query_event import BEGIN_TAIL, COMMIT_TAIL, read_query
from engine.decode.stream import EventBatch
from engine.decode.unfold import STATEMENTS, unfolded
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.xa_places import Prepared, XaPlaces, Xid

MAX_HELD_BYTES = 16 << 20
"""Bytes of an open transaction that are held back; beyond them the log is read ahead."""
_ROLLED_BACK, _UNCERTAIN = "undone", "doubtful"
_SAVEPOINT = re.compile(r"(?i)SAVEPOINT\s+(.*?)\s*;?\s*$", re.DOTALL)
_ROLLBACK = re.compile(
    r"(?i)ROLLBACK(?:\s+WORK)?(?:\s+TO(?:\s+SAVEPOINT)?\s+(.*?))?\s*(?:/\*.*\*/)?\s*;?\s*$", re.DOTALL
)


class Log(Protocol):
    """The binlog that contains the range, for reading parts of it again."""

    def read_batches(self, start: Position, end: Position) -> Iterator[EventBatch]:
        """Yield the events from `start` to `end`, across files, with artificial events.

        Each run is valid until the next.
        """

    def files(self) -> Sequence[str]:
        """The binlog files, oldest first."""


class TransactionOutcomes:
    """Determines transaction outcomes in a log from `start` to `end`, both between transactions.

    captured_ids: the table ids of captured tables that a run names. wants_rows: whether there can be any.
    prepared_count: for reading a prepared transaction that was committed. places: of transactions prepared before
    `start` (see `earlier_transactions`).
    """

    def __init__(
        self,
        start: Position,
        end: Position,
        log: Log | None,
        captured_ids: Callable[[EventBatch], npt.NDArray[np.uint64]],
        *,
        prepared_count: bool = False,
        wants_rows: bool = True,
        places: XaPlaces | None = None,
    ) -> None:
        self.start = start
        self.end = end
        self.log = log
        self._captured_ids = captured_ids
        self._prepared_count = prepared_count
        self._wants_rows = wants_rows
        # events are numbered in the order they arrive
        self._file = start.file
        self._next = 0
        self._begin = -1
        self._begin_at = start
        self._is_open = False
        self._has_rows = False
        self._bytes = 0
        self._known_end = False  # whether the outcome of the open transaction is known
        self._savepoints: dict[str, int] = {}
        self._shadows: dict[str, list[tuple[int, int]]] = {}
        self._dropped_spans: list[tuple[int, int, str]] = []  # from, to, why
        self._decisions = XaDecisions()
        self._xa = no_decisions()  # what the last recorded run says
        self._idle_events = np.zeros(0, np.int64)  # its XA START and XA END
        self._prepared_spans = np.zeros((0, 2), np.int64)  # from, to: of transactions whose rows count later, or never
        self._rows = PreparedRows()
        self._scans = False  # whether only the undecided transactions are wanted
        self._earlier = EarlierTransactions(start, places or XaPlaces(), self._scan_part, MAX_HELD_BYTES)
        self._held_runs: list[tuple[int, EventBatch]] = []

    def resolve(self, run: EventBatch) -> Iterator[ResolvedEvents]:
        """Yield the part of the log up to the end of this run whose outcome is known; `flush` yields the rest."""
        first = self._next
        if not len(run.headers):
            return
        self._record(run)
        if not self._is_open:
            yield from self._resolved_parts((*self._pop_held_runs(), (first, run)))
            return
        split_at = self._begin - first
        if split_at >= 0:
            yield from self._resolved_parts((*self._pop_held_runs(), (first, run.slice(0, split_at))))
            first, run = self._begin, run.slice(split_at, len(run.headers))
        low, high = bounds(run)
        self._bytes += high - low
        if self._bytes <= MAX_HELD_BYTES:
            self._held_runs.append((first, join([run])))
            return
        if not (self._known_end or self._scans) and any(
            len(self._captured_ids(part)) for _, part in (*self._held_runs, (first, run))
        ):
            self._look_ahead()
        yield from self._resolved_parts((*self._pop_held_runs(), (first, run)))

    def flush(self, *, file_ended: bool = False) -> Iterator[ResolvedEvents]:
        """Yield what was held back. file_ended: the file of an open transaction has ended.

        Raises SourceLostError if the binlog range ends inside a transaction that the server may still be writing.
        """
        if self._is_open and self._has_rows and self.log is not None and not self._prepared_count:
            if not file_ended and not self._file_ended(self.log):
                raise SourceLostError(
                    f"The binlog range that ends at {self.end} ends inside a transaction that began at "
                    f"{self._begin_at}.",
                    detail="Its rows count only when it is complete. Nothing of the binlog range was published.",
                    hint="Report this with the server's version.",
                )
            self._tear()
        self._is_open = False
        yield from self._resolved_parts(self._pop_held_runs())

    def _file_ended(self, log: Log) -> bool:
        """Whether the file of the open transaction has no more events.

        Its size does not tell: encrypted files are larger.
        """
        if file_number(self._file) < file_number(self.end.file):
            return True
        after = next((name for name in log.files() if file_number(name) > file_number(self._file)), None)
        if after is None:
            return False
        runs = log.read_batches(self.end, Position(after, FIRST_OFFSET))
        return not any(run.file == self._file and (run.offset > self.end.offset).any() for run in runs)

    def read_all(self) -> Iterator[ResolvedEvents]:
        """Yield the whole log from `start` to `end`."""
        assert self.log is not None
        for run in self.log.read_batches(self.start, self.end):
            for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
                yield from self.resolve(plain.run)
        yield from self.flush()

    @property
    def places(self) -> XaPlaces:
        """Where XA transactions were prepared.

        Those undecided at the end, and the last of the others that the range prepared.
        """
        here, earlier = self._decisions.places, self._earlier.undecided_places
        before = {xid: place for xid, place in earlier.items() if xid not in self._decisions.decided_earlier}
        return XaPlaces(before | dict(here.undecided), here.recent, self.start, self.end)

    @property
    def decided_earlier(self) -> set[Xid]:
        """The XA transactions that were prepared before the range and decided in it."""
        return self._decisions.decided_earlier

    def scan(self) -> None:
        """Read the log from `start` to `end` for its XA transactions.

        Keeps the rows of those that are prepared and not decided there.
        """
        self._scans = True
        if self.start.order < self.end.order:
            for _ in self.read_all():
                pass

    def take(self, xid: Xid) -> tuple[Prepared, KeptTransaction | str | None] | None:
        """After `scan`: the place of a transaction, and its rows if they were kept. Forgets it."""
        entry = self._decisions.take(xid)
        return None if entry is None else (entry[0], self._rows.take(entry[1]))

    def _pop_held_runs(self) -> list[tuple[int, EventBatch]]:
        runs, self._held_runs = self._held_runs, []
        return runs

    def _record(self, run: EventBatch) -> None:
        """Record what a run says about transaction outcomes."""
        kind, first = run.headers.kind, self._next
        if run.file != self._file:
            if self._is_open and self._has_rows:
                self._tear()
            self._file = run.file
            self._is_open = False
        begins = np.flatnonzero(among(kind, BEGINS))
        ends = among(kind, (Kind.XID, Kind.XA_PREPARE))
        queries = np.flatnonzero(kind == Kind.QUERY)
        tail = words(run.buffer)[run.headers.end[queries] - 8]
        commits = tail >> np.uint64(8) == COMMIT_TAIL
        ends[queries[commits]] = True
        xa = xa_events(run, queries[~commits & (tail >> np.uint64(16) != BEGIN_TAIL)])
        ends[xa.event] = True
        self._record_xa(run, xa, begins)
        others = xa.other_events
        for n, before in zip(others.tolist(), np.searchsorted(begins, others, side="right").tolist(), strict=True):
            if before:
                self._enter_transaction(run, int(begins[before - 1]), first)
            ends[n] |= self._read_statement(run, n, first + n)
        if len(begins):
            self._enter_transaction(run, int(begins[-1]), first)
        last_end = int(np.flatnonzero(ends)[-1]) if ends.any() else -1
        if len(begins) and begins[-1] > last_end:
            self._is_open = True
        elif last_end >= 0:
            self._is_open = False
        rows = among(kind[max(self._begin - first, 0) :], ROWS).any()
        self._has_rows = bool(rows) or (self._has_rows and self._begin < first)
        self._next = first + len(kind)

    def _enter_transaction(self, run: EventBatch, begin: int, first: int) -> None:
        if self._begin == first + begin:
            return
        self._begin = first + begin
        self._known_end = False
        self._has_rows = False
        self._bytes = 0
        self._begin_at = Position(run.file, int(run.offset[begin] - run.headers.size[begin]))
        self._savepoints.clear()
        self._shadows.clear()

    def _record_xa(self, run: EventBatch, xa: XaEvents, begins: Offsets) -> None:
        first, prepares = self._next, xa.event[xa.verb == PREPARE]
        before = np.searchsorted(begins, prepares, side="right") - 1
        begin, start = before.copy(), before.copy()
        if len(begins):
            begin = begins[before] + first
            start = run.offset[begins[before]] - run.headers.size[begins[before]]
        begin[before < 0], start[before < 0] = self._begin, self._begin_at.offset
        spans = Spans(begin, prepares + first, start, run.offset[prepares])
        self._xa = self._decisions.record(run.file, xa, spans, first)
        self._idle_events = xa.idle + first
        for number in self._xa.rolled_back:
            self._rows.drop(number)
        if not self._prepared_count:
            self._prepared_spans = np.concatenate([self._prepared_spans, np.column_stack([begin, spans.prepare])])

    def _read_statement(self, run: EventBatch, n: int, number: int) -> bool:
        """Record a statement. Returns whether it ends its transaction."""
        statement = read_query(run.body(n)).statement.strip()
        if match := _SAVEPOINT.match(statement):
            before = self._savepoints.pop(name := _name(match[1]), None)
            self._savepoints[name] = number
            if before is not None:
                self._shadows.setdefault(name, []).append((before, number))
        elif match := _ROLLBACK.match(statement):
            if match[1] is None:
                self._dropped_spans.append((self._begin, number, _ROLLED_BACK))
                return True
            self._roll_back_to(run, n, _name(match[1]), number)
        return False

    def _roll_back_to(self, run: EventBatch, n: int, name: str, number: int) -> None:
        if name not in self._savepoints:
            raise SourceLostError(
                f"The binlog {run.file}:{run.offset[n]} rolls a transaction back to a savepoint that it does not "
                f"contain: {name}.",
                detail="Tidemark cannot tell which of the transaction's rows count. "
                "The position stays before the transaction.",
                hint="Resnapshot the tables: tidemark redump SPEC --all (If it happens again, "
                "report it with the server version.)",
            )
        self._dropped_spans.append((self._savepoints[name], number, _ROLLED_BACK))
        self._dropped_spans += [(a, b, _UNCERTAIN) for a, b in self._shadows.get(name, ())]
        for later in list(self._savepoints)[list(self._savepoints).index(name) + 1 :]:
            del self._savepoints[later]

    def _tear(self) -> None:
        self._dropped_spans.append((self._begin, self._next, _ROLLED_BACK))

    def _look_ahead(self) -> None:
        """Read ahead to find the outcome of the open transaction, by the same rules."""
        assert self.log is not None, "a binlog range that is read in blocks can read its log again"
        ahead = TransactionOutcomes(
            self._begin_at, self.end, None, lambda _: _NO_TABLES, prepared_count=self._prepared_count
        )
        for run in self.log.read_batches(self._begin_at, self.end):
            for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
                if ahead._begin < 0:
                    begins = np.flatnonzero(among(plain.run.headers.kind, BEGINS))
                    if not len(begins):
                        continue
                    opened = int(begins[0])
                    ahead._record(plain.run.slice(opened, len(plain.run.headers)))
                else:
                    ahead._record(plain.run)
                if not ahead._is_open or ahead._begin > 0:
                    break
            else:
                continue
            break
        else:
            ahead._tear()  # it has not ended; `flush` refuses it if it still may
        self._known_end = True
        # `ahead` numbers events from the transaction's start. Entries after its end belong to other transactions.
        end = ahead._begin if ahead._begin > 0 else ahead._next
        self._dropped_spans += [(self._begin + a, self._begin + b, u) for a, b, u in ahead._dropped_spans if a < end]
        own = ahead._prepared_spans[ahead._prepared_spans[:, 0] < end]
        self._prepared_spans = np.concatenate([self._prepared_spans, own + self._begin])

    def _resolved_parts(
        self, runs: list[tuple[int, EventBatch]] | tuple[tuple[int, EventBatch], ...]
    ) -> Iterator[ResolvedEvents]:
        for first, run in self._join_prepared(list(runs)):
            resolved_run = ResolvedRun(first, run, self._masks(first, run))
            count, xa = len(run.headers), self._xa
            commits = np.flatnonzero((xa.commit >= first) & (xa.commit < first + count))
            rows = self._prepared_rows(resolved_run)
            if not self._scans:
                yield from self._with_commits(resolved_run, rows, commits)
            for number in xa.of[commits[xa.of[commits] < first]].tolist() if self._scans else ():
                self._rows.drop(number)
            self._dropped_spans = [entry for entry in self._dropped_spans if entry[1] > resolved_run.stop]
            self._prepared_spans = self._prepared_spans[self._prepared_spans[:, 1] > resolved_run.stop]

    def _join_prepared(self, runs: list[tuple[int, EventBatch]]) -> list[tuple[int, EventBatch]]:
        """Join the parts of a transaction that was held back and is now prepared, so that it can be kept."""
        if len(runs) < 2:
            return runs
        (opened, held_run), (first, last), spans = runs[0], runs[-1], self._xa.spans
        if held_run.file != last.file or opened not in spans.begin[:1]:
            return runs
        end = int(spans.prepare[0]) + 1 - first
        if not 0 < end <= len(last.headers):
            return runs
        whole = join([*(run for _, run in runs[:-1]), last.slice(0, end)])
        rest = last.slice(end, len(last.headers))
        return [(opened, whole), *([(first + end, rest)] if len(rest.headers) else [])]

    def _masks(self, first: int, run: EventBatch) -> Masks:
        count = len(run.headers)
        spans = (
            self._prepared_spans[(self._prepared_spans[:, 1] > first) & (self._prepared_spans[:, 0] < first + count)]
            - first
        )
        change = np.zeros(count + 1, np.int64)
        np.add.at(change, np.maximum(spans[:, 0], 0), 1)
        np.add.at(change, np.minimum(spans[:, 1], count), -1)
        masks = {why: np.zeros(count, bool) for why in (_ROLLED_BACK, _UNCERTAIN)}
        for a, b, why in self._dropped_spans:
            if a < first + count and b > first:
                masks[why][max(a - first, 0) : b - first] = True
        idle = self._idle_events[(self._idle_events >= first) & (self._idle_events < first + count)] - first
        return Masks(np.cumsum(change[:-1]) > 0, masks[_ROLLED_BACK], masks[_UNCERTAIN], idle)

    def _prepared_rows(self, resolved_run: ResolvedRun) -> Offsets:
        """The rows of prepared transactions that count once these are committed.

        Keeps those that the run does not commit.
        """
        first, run, masks, spans = resolved_run.first, resolved_run.run, resolved_run.masks, self._xa.spans
        if not masks.is_prepared.any():
            return np.zeros(0, np.int64)
        captured = self._captured_ids(run)
        rows = resolved_run.prepared_rows(captured)
        is_kept = (
            (spans.begin >= first) & (spans.prepare < resolved_run.stop) & (self._xa.decided_at >= resolved_run.stop)
        )
        if is_kept.any():
            begin, end = spans.begin[is_kept] - first, spans.prepare[is_kept] - first
            sure = none_within(rows[masks.is_uncertain[rows]], begin, end)
            begin, end = begin[sure], end[sure]
            maps = inside(np.flatnonzero(run.headers.kind == Kind.TABLE_MAP), begin, end)
            events = np.sort(np.concatenate([inside(rows, begin, end), of_tables(run, maps, captured)]))
            low, high = np.searchsorted(events, begin), np.searchsorted(events, end)
            parts = zip((begin + first).tolist(), low.tolist(), high.tolist(), strict=True)
            self._rows.keep(copy_events(run, events) if len(events) else None, [*parts])
        return rows

    def _with_commits(self, resolved_run: ResolvedRun, rows: Offsets, commits: Offsets) -> Iterator[ResolvedEvents]:
        """The run, with prepared rows behind their COMMITs.

        It is divided behind those whose rows must be read again.
        """
        xa, first, run = self._xa, resolved_run.first, resolved_run.run
        at, here = xa.commit[commits] - first, xa.of[commits] >= first
        begin = xa.of[commits[here]]
        end = xa.spans.prepare[np.searchsorted(xa.spans.begin, begin)]
        here[here] = sure = none_within(rows[resolved_run.masks.is_uncertain[rows]], begin - first, end - first)
        low, high = (np.searchsorted(rows, edge[sure] - first) for edge in (begin, end))
        moves = Moves(rows[ranges(low, high)], np.repeat(at[here], high - low))
        begin_at, kept_transactions, size = 0, list[tuple[int, KeptTransaction]](), 0
        for n, commit in zip(commits[~here].tolist(), at[~here].tolist(), strict=True):
            place, kept_rows = self._rows_of(n, run.slice(commit, commit + 1))
            if kept_rows == NOTHING:
                continue
            rows_apart = None
            if isinstance(kept_rows, KeptTransaction) and kept_rows.run.file == run.file:
                kept_transactions.append((commit, kept_rows))
                size += kept_rows.bytes
                if size <= MAX_HELD_BYTES:
                    continue
                place = None
            elif isinstance(kept_rows, KeptTransaction):
                rows_apart = copy_events(kept_rows.run, np.arange(kept_rows.begin, kept_rows.end))
            yield resolved_run.part(begin_at, commit + 1, moves, kept_transactions, place, rows_apart)
            begin_at, kept_transactions, size = commit + 1, [], 0
        if kept_transactions:  # a part of its own, as only a part with kept rows is copied
            yield resolved_run.part(begin_at, kept_transactions[-1][0] + 1, moves, kept_transactions)
            begin_at = kept_transactions[-1][0] + 1
        if begin_at < len(run.headers):
            yield resolved_run.part(begin_at, len(run.headers), moves, [])

    def _rows_of(self, n: int, commit: EventBatch) -> tuple[Prepared | None, KeptTransaction | str | None]:
        """The place of the transaction that COMMIT `n` of the last recorded run commits.

        Also returns its rows if they were kept.
        """
        of = int(self._xa.of[n])
        if not self._wants_rows:
            return None, NOTHING
        if of != EARLIER:
            return self._xa.place(of), self._rows.take(of)
        xid = self._xa.earlier[int((self._xa.of[:n] == EARLIER).sum())]
        if self.log is not None and (transaction := self._earlier.find(xid, self.log)) is not None:
            return transaction
        raise purged_error(xid, f"{commit.file}:{commit.offset[-1]}")

    def _scan_part(self, start: Position, end: Position) -> "TransactionOutcomes":
        """The transactions prepared in another part of the log, and not decided there."""
        earlier = TransactionOutcomes(start, end, self.log, self._captured_ids)
        earlier.scan()
        return earlier


_NO_TABLES = np.zeros(0, np.uint64)


def _name(text: str) -> str:
    """A savepoint's name, casefolded: servers ignore case in them."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in '`"'  # by the session's ANSI_QUOTES
    return (text[1:-1].replace(text[0] * 2, text[0]) if quoted else text).casefold()
