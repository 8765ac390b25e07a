"""Which XA COMMITs in the binlog are visible for certain (`source.watermarks`, class snapshot). For one reader.

The reader follows the binlog from the first time that it meets an XA transaction. It looks only at XA statements.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.capture.binlog.binlog_access import binary_logs
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.xa_events import decision, xa_statements, xid_of
from engine.decode.binlog_events import BEGINS, Kind, among, read_xa_prepare
from engine.decode.stream import EventBatch
from engine.decode.unfold import unfolded
from engine.source.connect import Endpoint
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.xa_places import Prepared, XaPlaces, Xid


class XaScan:
    """Reads a binlog range for XA statements (a `capture.binlog.binlog_reader.EventConsumer`).

    commits: for each transaction whose last statement commits it, the position before that. uncommitted_xids: those
    whose last statement does not. places: of the transactions prepared in the range. earlier: those decided in it that
    were prepared before.
    """

    def __init__(self, start: Position, end: Position) -> None:
        self.position = start
        self._start = start
        self.end = end
        self.commits: dict[Xid, Position] = {}
        self.uncommitted_xids: set[Xid] = set()
        self.earlier: set[Xid] = set()
        self._undecided_places: dict[Xid, Prepared] = {}
        self._recent: dict[Xid, Prepared] = {}
        self._begin = start

    @property
    def is_done(self) -> bool:
        return self.position.order >= self.end.order

    @property
    def places(self) -> XaPlaces:
        return XaPlaces().after(XaPlaces(self._undecided_places, self._recent, self._start, self.end), ())

    def feed(self, run: EventBatch) -> Iterator[None]:
        """Yield nothing."""
        if file_number(run.file) > file_number(self.end.file):
            self.position = self.end
            return
        if run.file == self.end.file and run.offset[-1] > self.end.offset:
            run = run.slice(0, int((run.offset <= self.end.offset).sum()))
            self.position = self.end
        if not len(run.headers):
            return
        if not self.is_done:
            self.position = Position(run.file, int(run.offset[-1]))
        for plain in unfolded(run, np.flatnonzero(run.headers.kind == Kind.MARIA_QUERY_COMPRESSED)):
            self._read_statements(plain.run)
        yield from ()

    def _read_statements(self, run: EventBatch) -> None:
        kind = run.headers.kind
        begins, queries = np.flatnonzero(among(kind, BEGINS)), np.flatnonzero(kind == Kind.QUERY)
        events = np.union1d(queries[xa_statements(run, queries)], np.flatnonzero(kind == Kind.XA_PREPARE))
        for n, before in zip(events.tolist(), np.searchsorted(begins, events, side="right").tolist(), strict=True):
            begin = self._start_of(run, int(begins[before - 1])) if before else self._begin
            if kind[n] == Kind.XA_PREPARE:
                self._record_prepare(run, n, begin)
            elif (decided := decision(run.body(n))) is not None:
                self._record_decision(decided[0], xid_of(decided[1]), begin)
        if len(begins):
            self._begin = self._start_of(run, int(begins[-1]))

    def _start_of(self, run: EventBatch, begin: int) -> Position:
        return Position(run.file, int(run.offset[begin] - run.headers.size[begin]))

    def _record_prepare(self, run: EventBatch, n: int, begin: Position) -> None:
        xid, one_phase = read_xa_prepare(run.body(n))
        if not one_phase:
            self.commits.pop(xid, None)
            self.uncommitted_xids.add(xid)
            self._undecided_places[xid] = Prepared(begin, Position(run.file, int(run.offset[n])))

    def _record_decision(self, commits: bool, xid: Xid, begin: Position) -> None:
        if xid in self._undecided_places:
            self._recent.pop(xid, None)
            self._recent[xid] = self._undecided_places.pop(xid)
        else:
            self.earlier.add(xid)
        self.uncommitted_xids.discard(xid)
        self.commits.pop(xid, None)
        if commits:
            self.commits[xid] = begin
        else:
            self.uncommitted_xids.add(xid)


@dataclass
class XaVisibility:
    """Follows the binlog up to `_through`.

    `_pending_commits`: the positions before XA COMMITs up to there that may not be visible.
    """

    endpoint: Endpoint
    first_server_id: int

    def __post_init__(self) -> None:
        self._through: Position | None = None
        self._pending_commits: dict[Xid, Position] = {}
        self._places = XaPlaces()

    def visible_through(
        self, end: Position, prepared_xids: Collection[Xid], known_position: Position | None = None
    ) -> tuple[Position, XaPlaces]:
        """The last position at or before `end` such that all XA COMMITs before it are visible.

        Also returns the places known there.

        prepared_xids: what XA RECOVER listed after the binlog had reached `end`. known_position: a position between two
        transactions before `end`; the first reading looks after it first.
        """
        if self._through is None or self._through.order > end.order:
            self._begin(end, prepared_xids, known_position)
        elif self._through.order < end.order:
            self._follow(self._through, end)
        self._through = end
        self._pending_commits = {xid: before for xid, before in self._pending_commits.items() if xid in prepared_xids}
        return min([end, *self._pending_commits.values()], key=lambda position: position.order), self._places

    def _begin(self, end: Position, prepared_xids: Collection[Xid], known_position: Position | None) -> None:
        """Find the last statement of each listed transaction, backwards from `end`."""
        self._pending_commits = {}
        self._places = XaPlaces()
        unknown = set(prepared_xids)
        decided_later = set[Xid]()
        files = [name for name in binary_logs(self.endpoint) if file_number(name) <= file_number(end.file)]
        edges = {edge.order: edge for edge in (*(Position(name, FIRST_OFFSET) for name in files), end)}
        if known_position is not None and min(edges) < known_position.order < end.order:
            edges[known_position.order] = known_position
        for start, stop in reversed([*pairwise(edge for _, edge in sorted(edges.items()))]):
            if not unknown:
                return
            scan = self._scan(start, stop)
            self._pending_commits |= {xid: before for xid, before in scan.commits.items() if xid in unknown}
            self._places = scan.places.after(self._places, decided_later)
            decided_later |= scan.earlier
            unknown -= scan.commits.keys() | scan.uncommitted_xids

    def _follow(self, start: Position, end: Position) -> None:
        scan = self._scan(start, end)
        self._pending_commits = {
            xid: before for xid, before in self._pending_commits.items() if xid not in scan.uncommitted_xids
        } | scan.commits
        self._places = self._places.after(scan.places, scan.earlier)

    def _scan(self, start: Position, end: Position) -> XaScan:
        scan = XaScan(start, end)
        for _ in read_range(self.endpoint, scan, self.first_server_id):
            pass
        return scan
