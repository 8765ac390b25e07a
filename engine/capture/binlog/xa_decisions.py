"""Matches the COMMITs and ROLLBACKs of XA transactions with their PREPAREs, run by run, in columns.

A transaction is known by the number of its first event (`transaction_outcomes` numbers all events of a range). Most are
decided in the run that prepares them. To find these pairs, the run's events are sorted by a hash of their keys. A
PREPARE and the decision that follows it in this order are a pair if their keys are equal. The other events pass through
a dictionary, one by one. So a collision of hashes costs time, but never makes a pair.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.capture.binlog.xa_events import COMMIT, PREPARE, ROLLBACK, U64, XaEvents, key_of, xid_of
from engine.decode.framing import Offsets
from engine.source.positions import Position
from engine.source.xa_places import MOST_RECENT, Prepared, XaPlaces, Xid

EARLIER = -2
"""Stands for a transaction that was prepared before the range."""
UNDECIDED = int(np.iinfo(np.int64).max)
_ROLLED_BACK = -1
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_PreparePlace = tuple[str, int, int]
"""The file of a PREPARE, and the offsets before its transaction and after it."""


@dataclass(frozen=True)
class Spans:
    """The transactions that a run prepares, in order: numbers of events, and offsets in the file."""

    begin: Offsets
    """The first event."""
    prepare: Offsets
    """The PREPARE."""
    start: Offsets
    """The position before the transaction."""
    end: Offsets
    """The position after it."""


@dataclass(frozen=True)
class DecidedTransactions:
    """What one run says about XA transactions."""

    file: str
    spans: Spans
    decided_at: Offsets
    """For each span, the number of the COMMIT, if the run has it; `UNDECIDED` without a decision, -1 after
    a rollback."""
    commit: Offsets
    """The numbers of the COMMITs."""
    of: Offsets
    """For each COMMIT, the first event of its transaction, or `EARLIER`."""
    earlier: tuple[Xid, ...]
    """For each COMMIT of a transaction that was prepared before the range, the transaction."""
    rolled_back: tuple[int, ...]
    """The first events of transactions from earlier runs that this one rolls back."""
    places: Mapping[int, _PreparePlace]
    """The places of the transactions from earlier runs that this one decides, by their first event."""

    def place(self, begin: int) -> Prepared:
        """Where a transaction that the run decides was prepared."""
        if begin in self.places:
            return _prepared_place(self.places[begin])
        n = int(np.searchsorted(self.spans.begin, begin))
        return _prepared_place((self.file, int(self.spans.start[n]), int(self.spans.end[n])))


def no_decisions() -> DecidedTransactions:
    """What is known before the first run."""
    none = np.zeros(0, np.int64)
    return DecidedTransactions("", Spans(none, none, none, none), none, none, none, (), (), {})


@dataclass(frozen=True)
class _Recent:
    """The last transactions that a run decided, in order.

    other_places: the places of those that were prepared in earlier runs.
    """

    keys: U64
    file: str
    start: Offsets
    end: Offsets
    other_places: Mapping[int, _PreparePlace]

    def places(self) -> Iterator[tuple[Xid, _PreparePlace]]:
        """Yield each transaction and its place."""
        for n, (row, start, end) in enumerate(zip(self.keys, self.start.tolist(), self.end.tolist(), strict=True)):
            yield _xid(row), self.other_places.get(n, (self.file, start, end))


class XaDecisions:
    """The XA transactions of one range."""

    def __init__(self) -> None:
        self._undecided_transactions: dict[
            bytes, tuple[int, _PreparePlace, int]
        ] = {}  # the first event, the place, the hash of the key
        self._recent: list[_Recent] = []
        self._earlier: set[Xid] = set()

    def record(self, file: str, xa: XaEvents, spans: Spans, first: int) -> DecidedTransactions:
        """Add a run whose first event has this number."""
        hashes, commits = _hashes(xa.keys), xa.verb == COMMIT
        partner = _partners(xa, hashes)
        here = (xa.verb != PREPARE) & (partner >= 0)
        span = np.cumsum(xa.verb == PREPARE) - 1  # of each PREPARE
        span_here, number = span[partner[here]], xa.event + first
        of, decided_at = np.full(len(number), EARLIER), np.full(len(spans.begin), UNDECIDED)
        of[here] = spans.begin[span_here]
        decided_at[span_here] = np.where(commits[here], number[here], _ROLLED_BACK)
        places = self._one_by_one(file, xa, spans, np.flatnonzero(partner < 0), span, hashes, of)
        self._forget_lost(xa.keys, hashes, np.flatnonzero(here), of)
        self._remember(file, xa.keys, spans, places, np.flatnonzero((xa.verb != PREPARE) & (of != EARLIER)), of)
        return DecidedTransactions(
            file=file,
            spans=spans,
            decided_at=decided_at,
            commit=number[commits],
            of=of[commits],
            earlier=tuple(_xid(row) for row in xa.keys[commits & (of == EARLIER)]),
            rolled_back=tuple(of[~here & (xa.verb == ROLLBACK) & (of != EARLIER)].tolist()),
            places=places,
        )

    def _one_by_one(
        self, file: str, xa: XaEvents, spans: Spans, events: Offsets, span: Offsets, hashes: U64, of: Offsets
    ) -> dict[int, _PreparePlace]:
        """Pass events through the dictionary.

        Fills `of`, and returns the places of earlier runs' transactions decided by them.
        """
        places = dict[int, _PreparePlace]()
        for n in events.tolist():
            key = _key(xa.keys[n])
            if xa.verb[n] == PREPARE:
                at = span[n]
                place = file, int(spans.start[at]), int(spans.end[at])
                self._undecided_transactions[key] = int(spans.begin[at]), place, int(hashes[n])
            elif (transaction := self._undecided_transactions.pop(key, None)) is not None:
                of[n], places[transaction[0]] = transaction[0], transaction[1]
            else:
                self._earlier.add(xid_of(key))
        return places

    def _forget_lost(self, keys: U64, hashes: U64, decided_events: Offsets, begin: Offsets) -> None:
        """Forget transactions whose id was prepared again: a crashed server has rolled them back without a trace."""
        undecided_hashes = np.fromiter(
            (entry[2] for entry in self._undecided_transactions.values()), np.uint64, len(self._undecided_transactions)
        )
        for n in (
            decided_events[np.isin(hashes[decided_events], undecided_hashes)].tolist() if len(undecided_hashes) else ()
        ):
            entry = self._undecided_transactions.get(key := _key(keys[n]))
            if entry is not None and entry[0] < begin[n]:
                del self._undecided_transactions[key]

    def _remember(
        self,
        file: str,
        keys: U64,
        spans: Spans,
        places: Mapping[int, _PreparePlace],
        decided_events: Offsets,
        of: Offsets,
    ) -> None:
        """Remember where the last ones that were decided had been prepared."""
        decided_events = decided_events[-MOST_RECENT:]
        begin, at = of[decided_events], np.searchsorted(spans.begin, of[decided_events])
        here = at < len(spans.begin)
        here[here] = spans.begin[at[here]] == begin[here]
        start, end = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
        start[here], end[here] = spans.start[at[here]], spans.end[at[here]]
        others = {n: places[int(begin[n])] for n in np.flatnonzero(~here).tolist()}
        self._recent.append(_Recent(keys[decided_events], file, start, end, others))
        while sum(len(some.keys) for some in self._recent[1:]) >= MOST_RECENT:
            del self._recent[0]

    @property
    def places(self) -> XaPlaces:
        """Where the transactions were prepared: those that are undecided, and the last of the others."""
        recent = dict[Xid, Prepared]()
        for xid, place in [one for some in self._recent for one in some.places()][-MOST_RECENT:]:
            recent.pop(xid, None)
            recent[xid] = _prepared_place(place)
        undecided = {xid_of(key): _prepared_place(place) for key, (_, place, _) in self._undecided_transactions.items()}
        return XaPlaces(undecided, recent)

    @property
    def decided_earlier(self) -> set[Xid]:
        """Those that were prepared before the range and decided in it."""
        return self._earlier

    def take(self, xid: Xid) -> tuple[Prepared, int] | None:
        """Forget an undecided transaction; returns its place and its first event. None if there is none."""
        entry = self._undecided_transactions.pop(key_of(xid), None)
        return None if entry is None else (_prepared_place(entry[1]), entry[0])


def _hashes(keys: U64) -> U64:
    hashes = np.zeros(len(keys), np.uint64)
    for column in keys.T:
        hashes = (hashes ^ column) * _FACTOR
        hashes ^= hashes >> _SHIFT
    return hashes


def _partners(xa: XaEvents, hashes: U64) -> Offsets:
    """For each event of a pair, the other one; -1 for the others."""
    order = np.argsort(hashes, kind="stable")
    before, after = order[:-1], order[1:]
    pair = (hashes[before] == hashes[after]) & (xa.verb[before] == PREPARE) & (xa.verb[after] != PREPARE)
    before, after = before[pair], after[pair]
    equal = (xa.keys[before] == xa.keys[after]).all(axis=1)
    partner = np.full(len(hashes), -1)
    partner[before[equal]], partner[after[equal]] = after[equal], before[equal]
    return partner


def _key(row: U64) -> bytes:
    """The key in a row, without its padding."""
    return key_of(_xid(row))


def _xid(row: U64) -> Xid:
    return xid_of(row.tobytes())


def _prepared_place(place: _PreparePlace) -> Prepared:
    file, start, end = place
    return Prepared(Position(file, start), Position(file, end))
