"""Reads what an epoch publishes: the binlog range after the committed position, and redumped parts.

Chunks of tables with a mutable key are first fast-forwarded to the committed position (`capture.chunk.fast_forward`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from engine.capture.binlog.emission import progress_of
from engine.capture.binlog.one_phase_commits import require_two_phases
from engine.capture.captured_tables import CapturedTables
from engine.capture.chunk.chunk_reader import ChunkRequest
from engine.capture.chunk.fast_forward import FastForward, has_mutable_key
from engine.capture.chunk.redump_part import RedumpPart
from engine.capture.reports import FailureReport, RangeReport, RedumpReport
from engine.capture.tasks import BinlogTask, EmittedTable
from engine.ledger.state import State
from engine.plan.coverage import Coverage
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.mutable_keys import FastForwarded, fast_forward_to
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.table_copy import Finished
from engine.source.ancestry import check_born
from engine.source.connect import Endpoint
from engine.source.positions import Position
from engine.source.watermarks import WatermarkClass
from engine.source.xa_places import KnownPlaces, XaPlaces
from engine.spark.session import Session

_PART_SEQ = 1 << 33
"""Sequence numbers reserved for each part of an epoch: more than the row images of any binlog file."""
RangeEnds = tuple[Position, Position]
"""The start and end of a part of a binlog range."""


@dataclass
class EpochReader:
    """Runs an epoch's tasks on Spark. Used by one thread."""

    endpoint: Endpoint
    first_server_id: int
    mariadb: bool
    watermarks: WatermarkClass
    session: Session
    captured: CapturedTables
    snapshot: SnapshotScheduler
    redumps: RedumpExecutor
    places: XaPlaces = field(default_factory=XaPlaces)
    """Of the XA transactions that were prepared last before the committed position, or an earlier one."""
    known_places: KnownPlaces = field(default_factory=KnownPlaces)
    """The same, at the ends of the last epochs."""

    def note_commit(self, reports: Sequence[RangeReport]) -> None:
        """Note an epoch's XA transactions.

        A range that ended early does not know its own; what was known before it stays.
        """
        for report in reports:
            if report.xa is not None:
                self.places = self.places.after(*report.xa)
        self.known_places.note(self.places)

    def fast_forward(self, frozen: Sequence[Finished], position: Position) -> FastForwarded:
        """The chunks that an epoch starting at `position` may publish.

        Those of tables with a mutable key are fast-forwarded to it.
        """
        movable: list[Finished] = []
        others: list[Finished] = []
        for f in frozen:
            table, plan = self.captured.tables[f.table], self.captured.plans[f.table]
            (movable if has_mutable_key(table, plan.key(table)) else others).append(f)
        ready = [f for f in movable if f.high.order <= position.order]
        forwarded = fast_forward_to(position, ready, self._fast_forward, self.session.run)
        forwarded.chunks = [*others, *forwarded.chunks]
        return forwarded

    def read(
        self,
        parts: Sequence[RangeEnds],
        frozen: Sequence[Finished],
        redumped: Sequence[Finished],
        state: State,
        stopped: Collection[str],
    ) -> tuple[list[RedumpReport], list[RangeReport]]:
        """The reports of the redumped parts, whose changes come first, and of the parts of the binlog range.

        stopped: tables that stop with this epoch; nothing is emitted for them. Raises the first error of a part, or
        OnePhaseCommitError.
        """
        if not parts and not redumped:
            return [], []
        position = state.position
        first_seq = [state.next_seq + n * _PART_SEQ for n in range(len(redumped) + len(parts))]
        redumps = [self._redump(f, position, seq) for f, seq in zip(redumped, first_seq, strict=False)]
        live = [name for name, table in state.tables.items() if not table.stopped]
        emitted = tuple(self._emitted_table(name, frozen, state) for name in live if name not in stopped)
        awaited = tuple(self.captured.tables[name] for name, table in state.tables.items() if table.stopped)
        task = partial(BinlogTask, self.endpoint, self.first_server_id, self.mariadb)
        tasks = [
            task(start, end, emitted, seq, awaited, position, self.places)
            for (start, end), seq in zip(parts, first_seq[len(redumped) :], strict=True)
        ]
        about = f"log {parts[0][0]} – {parts[-1][1]}" if parts else f"{len(redumped)} redumped parts, at {position}"
        reports = self.session.run([*redumps, *tasks], about)
        for report in reports:
            if isinstance(report, FailureReport):
                raise report.error
        ranges = [report for report in reports if isinstance(report, RangeReport)]
        for report in ranges:
            check_born(position, report.births.get(position.file))
        require_two_phases(self.watermarks, ranges)  # before the epoch commits chunks
        return [report for report in reports if isinstance(report, RedumpReport)], ranges

    def _fast_forward(self, finished: Finished, position: Position) -> FastForward:
        name, number, limits = finished.table, finished.report.chunk, finished.limits
        table, plan, folder = self.captured.tables[name], self.captured.plans[name], self.captured.chunks(name)
        projection = self.captured.projection(name)
        request = ChunkRequest(table, number, plan.key(table), limits, 0, folder, 0, projection, keys=finished.keys)
        places = KnownPlaces(self.known_places.near(finished.high))
        task = partial(FastForward, self.endpoint, self.first_server_id, self.mariadb, request)
        return task(finished.files, finished.high, position, places)

    def _redump(self, finished: Finished, position: Position, first_seq: int) -> RedumpPart:
        assert finished.redump is not None
        log, folder = self.redumps.log_of(finished.table), self.captured.changes(finished.table)
        part = self._fast_forward(finished, position)
        return RedumpPart(part, finished.ghosts, log, folder, first_seq, finished.redump)

    def _emitted_table(self, name: str, frozen: Sequence[Finished], state: State) -> EmittedTable:
        table, plan, position = self.captured.tables[name], self.captured.plans[name], state.position
        exact = {f.report.chunk: f.high.order for f in frozen if f.table == name}
        coverage: Coverage = self.snapshot.coverage(name) or state.tables[name].coverage
        since = state.tables[name].since
        through = max(position.order, since.order) if since else position.order
        progress = progress_of(coverage.pieces(), through, exact.get)
        return EmittedTable(
            table, plan.key(table), progress, self.captured.changes(name), self.captured.projection(name)
        )
