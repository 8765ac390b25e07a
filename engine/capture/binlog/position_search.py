"""Finds a position in a binlog: after a set of transactions, at a time, or at a given offset.

By GTID, the position must be the only one: every transaction before it is published, every one after it is new. If it
exists, it is in the newest file whose head lists only published transactions. From there, the binlog is scanned to its
end, looking only at GTID events. A published transaction after a new one means that the two servers wrote in different
orders, so no position is right.

On MariaDB a domain has the same order of transactions on all servers. So in each domain, everything up to our last
transaction is published. The numbers must ascend in that order; if they do not, nothing is proved.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.capture.binlog.binlog_access import runs_from
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.transactions import NUMBER, SOURCE, TS, Transactions
from engine.decode.binlog_events import BEGINS, Kind
from engine.decode.framing import Offsets, words
from engine.decode.gtid import GtidPosition, Gtids, GtidSet
from engine.decode.gtid_events import GtidList, read_tagged_gtid
from engine.decode.stream import EventBatch
from engine.source.connect import Endpoint
from engine.source.heads import Head, read_head
from engine.source.positions import FIRST_OFFSET, Position, file_number

_COMMIT_US = 42
"""The offset of the commit time in a GTID event's body: seven bytes, whose highest bit means something else."""
_MASK_US = np.uint64((1 << 55) - 1)
_OUTSIDE = frozenset(
    (
        *BEGINS,
        Kind.ROTATE,
        Kind.STOP,
        Kind.FORMAT_DESCRIPTION,
        Kind.PREVIOUS_GTIDS,
        Kind.MARIA_GTID_LIST,
        Kind.MARIA_BINLOG_CHECKPOINT,
        Kind.MARIA_START_ENCRYPTION,
    )
)
"""Events that begin outside a transaction: before each transaction, both servers write a GTID event or an anonymous
one."""


class NoPlaceError(Exception):
    """The position does not exist.

    verdict: one of "diverged", "purged", "no GTIDs"; seen: the finding, for the message.
    """

    def __init__(self, verdict: str, seen: str) -> None:
        super().__init__(verdict, seen)
        self.verdict = verdict
        self.seen = seen


class SoughtPosition(Protocol):
    """Chooses transactions of a run, in order.

    alone: whether all transactions after the first chosen one must be chosen too.
    """

    alone: bool

    def choose(
        self, run: EventBatch, begins: Offsets, facts: npt.NDArray[np.int64], sources: list[str]
    ) -> npt.NDArray[np.bool_]: ...


class Scan:
    """Finds the first transaction that `wanted` chooses (a `capture.binlog.binlog_reader.EventConsumer`).

    matches: the position before it.
    """

    def __init__(self, start: Position, end: Position, wanted: SoughtPosition, *, mariadb: bool) -> None:
        self.position = start
        self.end = end
        self.matches: Position | None = None
        self._wanted = wanted
        self._transactions = Transactions(mariadb=mariadb)

    @property
    def births(self) -> dict[str, int]:
        return self._transactions.births

    @property
    def is_done(self) -> bool:
        return self.position.order >= self.end.order or (self.matches is not None and not self._wanted.alone)

    def feed(self, run: EventBatch) -> Iterator[None]:
        """Yield nothing; the result is `matches`.

        Raises NoPlaceError if a later transaction is not chosen but must be.
        """
        if file_number(run.file) > file_number(self.end.file):
            self.position = self.end
            return
        last = Position(run.file, int(run.offset[-1]))
        if last.order >= self.end.order:
            run, last = run.slice(0, int((run.offset <= self.end.offset).sum())), self.end
        if not len(run.headers):
            self.position = last
            return
        begins = np.flatnonzero(np.isin(run.headers.kind, BEGINS))
        facts = self._transactions.of(run).at(begins).lines()
        if len(begins):
            chosen = self._wanted.choose(run, begins, facts, self._transactions.sources)
            self._take(run, begins, chosen)
        self.position = last
        yield from ()

    def _take(self, run: EventBatch, begins: Offsets, chosen: npt.NDArray[np.bool_]) -> None:
        if self.matches is None and chosen.any():
            first = int(np.argmax(chosen))
            n = int(begins[first])
            at = int(run.offset[n] - run.headers.size[n])
            self.matches = Position(run.file, at, born=self.births.get(run.file))
            chosen = chosen[first:]
        if self.matches is not None and self._wanted.alone and not chosen.all():
            raise NoPlaceError(
                "diverged",
                f"it wrote transactions of its own (from {self.matches} on) before others that are already published",
            )


class NotInSet:
    """Chooses transactions that are not in a GTID set of MySQL's."""

    alone = True

    def __init__(self, gtids: GtidSet) -> None:
        self._gtids = gtids

    def choose(
        self, run: EventBatch, begins: Offsets, facts: npt.NDArray[np.int64], sources: list[str]
    ) -> npt.NDArray[np.bool_]:
        source, number = facts[:, SOURCE], facts[:, NUMBER]
        if not source.all():
            raise NoPlaceError("no GTIDs", f"{run.file} contains transactions without a GTID")
        new = np.ones(len(begins), bool)
        for n in np.unique(source).tolist():
            chosen = source == n
            new[chosen] = ~self._gtids.holds(sources[n].removesuffix(":"), number[chosen])
        return new


class BehindPosition:
    """Chooses transactions after a GTID position of MariaDB's.

    before: the GTID list at the head of the first file read.
    """

    alone = True

    def __init__(self, gtids: GtidPosition, before: GtidList) -> None:
        self._gtids = gtids
        self._has_reached = {domain for domain, last in gtids.last.items() if before.position.last.get(domain) == last}
        self._numbers = {domain: number for domain, (_, number) in before.position.last.items()}

    @property
    def missing_position(self) -> list[int]:
        """Domains whose last published transaction was not found."""
        return sorted(set(self._gtids.last) - self._has_reached)

    def choose(
        self, run: EventBatch, begins: Offsets, facts: npt.NDArray[np.int64], sources: list[str]
    ) -> npt.NDArray[np.bool_]:
        pairs = np.array([[int(x) for x in text.split("-")[:2]] if text else [-1, -1] for text in sources], np.int64)
        domain, server = pairs[facts[:, SOURCE]].T
        number, new = facts[:, NUMBER], np.ones(len(begins), bool)
        for d in np.unique(domain).tolist():
            at = np.flatnonzero(domain == d)
            self._require_order(run, d, number[at])
            if d not in self._gtids.last or d in self._has_reached:
                continue
            last = self._gtids.last[d]
            hits = np.flatnonzero((server[at] == last[0]) & (number[at] == last[1]))
            if len(hits):
                self._has_reached.add(d)
            new[at[: int(hits[0]) + 1 if len(hits) else len(at)]] = False
        return new

    def _require_order(self, run: EventBatch, domain: int, numbers: npt.NDArray[np.int64]) -> None:
        before = np.concatenate([[self._numbers.get(domain, 0)], numbers[:-1]])
        if (numbers <= before).any():
            raise NoPlaceError("diverged", f"the numbers of domain {domain} do not ascend in {run.file}")
        self._numbers[domain] = int(numbers[-1])


class CommittedSince:
    """Chooses transactions committed at or after a time, in microseconds since 1970."""

    alone = False

    def __init__(self, since_us: int, *, mariadb: bool) -> None:
        self._since_us = since_us
        self._mariadb = mariadb

    def choose(
        self, run: EventBatch, begins: Offsets, facts: npt.NDArray[np.int64], sources: list[str]
    ) -> npt.NDArray[np.bool_]:
        # MariaDB writes whole seconds, of the committing statement. The last microsecond is assumed, lest the position
        # be too late.
        committed_us = facts[:, TS] * 1_000_000 + 999_999
        if not self._mariadb:
            body, kind = run.headers.body[begins], run.headers.kind[begins]
            plain = (kind != Kind.GTID_TAGGED) & (run.headers.end[begins] - body >= _COMMIT_US + 7)
            loads = words(run.buffer)
            committed_us[plain] = (loads[body[plain] + _COMMIT_US] & _MASK_US).view(np.int64)
            for n in np.flatnonzero(kind == Kind.GTID_TAGGED).tolist():
                committed_us[n] = read_tagged_gtid(run.body(int(begins[n]))).commit_us
        return np.asarray(committed_us >= self._since_us)


@dataclass(frozen=True)
class Binlog:
    """The binlog to search: its files, oldest first, and its end."""

    endpoint: Endpoint
    first_server_id: int
    files: list[str]
    end: Position
    mariadb: bool

    def position_after(self, gtids: Gtids) -> Position:
        """The position after these transactions, which the server must have. Raises NoPlaceError."""
        head = self._newest(lambda head: begins_in(head, gtids))
        if head is None:
            raise NoPlaceError(
                "purged", f"its oldest file, {self.files[0]}, begins after the last published transaction"
            )
        if isinstance(gtids, GtidSet):
            return self._scan(head, NotInSet(gtids))
        assert isinstance(head.before, GtidList)
        wanted = BehindPosition(gtids, head.before)
        place = self._scan(head, wanted)
        if wanted.missing_position:
            raise NoPlaceError(
                "diverged",
                f"its binlog does not contain the last published transaction of domain {wanted.missing_position[0]}",
            )
        return place

    def since(self, since_us: int) -> Position:
        """The position before the first transaction committed at or after a time.

        Raises NoPlaceError if it may be purged.
        """
        head = self._newest(lambda head: head.born < since_us // 1_000_000)
        if head is None:
            raise NoPlaceError("purged", f"its oldest file, {self.files[0]}, began later")
        return self._scan(head, CommittedSince(since_us, mariadb=self.mariadb))

    def _newest(self, fits: Callable[[Head], bool]) -> Head | None:
        for file in reversed(self.files):
            head = read_head(self.endpoint, file, self.first_server_id)
            if fits(head):
                return head
        return None

    def _scan(self, head: Head, wanted: SoughtPosition) -> Position:
        scan = Scan(Position(head.file, FIRST_OFFSET), self.end, wanted, mariadb=self.mariadb)
        for _ in read_range(self.endpoint, scan, self.first_server_id):
            pass
        end = self.end
        return scan.matches or Position(end.file, end.offset, born=scan.births.get(end.file))

    def is_between(self, position: Position, boundary: Position | None = None) -> bool:
        """Whether a transaction may begin at this offset of an existing file.

        It may if an event ends there, and no transaction is open.

        boundary: as for `next_between`.
        """
        start = _from(position, boundary)
        last = start.offset
        with closing(runs_from(self.endpoint, start, self.first_server_id)) as runs:
            for run in runs:
                if run.file != position.file:
                    break
                real = run.headers.end_position != 0
                begin = run.offset - run.headers.size
                at = np.flatnonzero(real & (begin >= position.offset))
                if len(at):
                    n = int(at[0])
                    return int(begin[n]) == position.offset and int(run.headers.kind[n]) in _OUTSIDE
                last = int(run.offset[-1])
        return last == position.offset

    def next_between(self, position: Position, boundary: Position | None = None) -> Position:
        """The first position at or after `position`, in its file, at which a transaction may begin.

        Else the file's end.

        boundary: a position between two transactions. The file is read from there, or from its beginning if that is
        later or in another file: a dump can only begin with an event. (So does SHOW BINLOG EVENTS.)
        """
        start = _from(position, boundary)
        last = start.offset
        with closing(runs_from(self.endpoint, start, self.first_server_id)) as runs:
            for run in runs:
                if run.file != position.file:
                    break
                begin = run.offset - run.headers.size
                late = (run.headers.end_position != 0) & (begin >= position.offset)
                at = np.flatnonzero(late & np.isin(run.headers.kind, list(_OUTSIDE)))
                if len(at):
                    return Position(position.file, int(begin[at[0]]))
                last = int(run.offset[-1])
        return Position(position.file, last)


def _from(position: Position, boundary: Position | None) -> Position:
    if boundary is not None and boundary.file == position.file and boundary.offset <= position.offset:
        return boundary
    return Position(position.file, FIRST_OFFSET)


def begins_in(head: Head, gtids: Gtids) -> bool:
    """Whether the position after these transactions is in this file or later.

    It is if all transactions before the file are published.
    """
    before = head.before
    if isinstance(gtids, GtidSet):
        return isinstance(before, GtidSet) and before <= gtids
    if not isinstance(before, GtidList):
        return False
    for (domain, server), number in before.entries.items():
        last = gtids.last.get(domain)
        if last is None:
            return False
        exactly = before.position.last[domain] == last
        if not exactly and server == last[0] and number >= last[1]:
            return False
    return True
