"""The loop of epochs (DESIGN 8, 9).

Each epoch, in this order: freeze the set of chunks reported so far; take the source's position P'; read the segment of
the log from min(P, A of the frozen chunks) to P'; commit chunks and changes in one ledger file; hand it to the publisher.
The order is the proof: a frozen chunk's high watermark lies before P', so that the segment ends behind it; a chunk that is
not frozen takes part in a later epoch, whose segment starts at or before its high watermark.

Chunks are read by jobs of their own all the while: the log never waits for the snapshot, nor the snapshot for the log.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine import clock
from engine.capture.binlog import BinlogStretch
from engine.capture.carry import Carry, moving
from engine.capture.chunk import ChunkRequest
from engine.capture.emission import progress_of
from engine.capture.refresh import Refresh
from engine.capture.segment import read_stretch
from engine.capture.shape import Shape
from engine.capture.statements import Alteration
from engine.capture.tasks import ChunkGroup, Follow, Report, Segment
from engine.decode.schema import Table, table_from_dict
from engine.errors import LoginRefusedError, SourceAwayError, TidemarkError, TransientError, from_dict, is_disk_full
from engine.events import Journal
from engine.layout import changes_folder, mirror_folder
from engine.ledger.state import Record, State, TableState, following, nulled
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.plan.coverage import Coverage, cut_as_dict
from engine.plan.keys import Bound
from engine.run.altering import Altered, Verdict, verdict
from engine.run.away import EPOCHS, Away
from engine.run.begin import Source, check_source
from engine.run.carrying import carry_to
from engine.run.control import Control
from engine.run.copying import Copying, Finished, planned_chunks
from engine.run.cutter import Cutter
from engine.run.delivery import Delivery
from engine.run.epoch import completed, cut, event, seen, table_records, up_to_alteration
from engine.run.gtids import known_gtids, position_after, require_gtids
from engine.run.joining import Joining
from engine.run.monitor import Committed
from engine.run.progress import Progress
from engine.run.publisher import Publisher
from engine.run.redumps import check_ranges
from engine.run.refreshing import Refreshes
from engine.run.shapes import shape_of
from engine.run.snapshot import Snapshot
from engine.run.statement_reach import tables_reached
from engine.run.throttle import Health, hold
from engine.settings import Spec
from engine.source.ancestry import check_born, went_back
from engine.source.connect import Connection, break_off, open_connection, query
from engine.source.positions import Position, binlog_files, current, position_from_dict
from engine.source.watermarks import Candidate, server_time_s
from engine.spark.session import Session

_TICK_S = 0.02
_PART_SEQ = 1 << 33
"""Sequence numbers set aside for one of several segments of an epoch: more images than a binlog file can hold."""


class Coordinator:
    """Runs epochs until told to stop, or until `until` ("snapshot", "caught-up") is reached."""

    def __init__(
        self,
        spec: Spec,
        source: Source,
        session: Session,
        ledger: Ledger,
        publisher: Publisher,
        control: Control,
        journal: Journal,
        away: Away,
    ) -> None:
        assert ledger.state is not None  # epoch 0 is committed before there is a coordinator
        self._spec, self._source, self._session = spec, source, session
        self._ledger, self._publisher, self._control, self._journal = ledger, publisher, control, journal
        self._away = away
        self._connection: Connection = open_connection(source.endpoint)
        self._mariadb = source.server.flavor == "mariadb"
        self._plans: dict[str, Plan] = {}
        self._tables: dict[str, Table] = {}
        self._gtids = known_gtids(
            self._connection, source.endpoint, source.server, self.position, spec.first_server_id()
        )
        self._candidate = Candidate(self.position, 0.0)
        self._last_ts = 0
        self._frozen: list[Finished] = []
        self._replaced: dict[tuple[str, int], list[Path]] = {}
        self._stopped: dict[str, Record] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._progress = Progress(control, journal)
        self._shapes: dict[str, tuple[Table, Shape]] = {}
        self._delivery = Delivery(spec, ledger, publisher, control, journal)
        self._last_epoch = -math.inf
        self._snapshot = Snapshot(
            lambda: spec.snapshot.readers or session.slots,
            control,
            spec.snapshot.max_chunk_memory_bytes,
            journal,
            Cutter(source.endpoint),
            lambda group, text: session.run([group], text),
            spec.snapshot.chunk_attempts,
        )
        self._refreshes = Refreshes(
            self._snapshot,
            control,
            journal,
            self._reading_again,
            lambda name, redump: check_ranges(source.endpoint, redump, self._tables[name], self._plans[name]),
            publisher.has_copy,
            publisher.unmerged,
        )
        self._joining = Joining(spec, publisher, control, self._snapshot.reading)
        control.parking.keep_of(ledger.state.tables)
        for name, table in ledger.state.tables.items():
            self._take(name, table)

    def _take(self, name: str, table: TableState) -> None:
        """A table as the ledger has it is captured from here on."""
        # The spec decides, not what it said when the table joined.
        null_dates = self._spec.source.invalid_dates == "null"
        self._plans[name] = plan_from_dict(table.plan)
        described = table_from_dict(table.table).with_null_dates(null_dates)
        self._tables[name] = described.told_apart_by(self._plans[name].chunk_key)
        if not table.stopped and not table.copied:
            self._snapshot.add(self._copying(self._tables[name], self._plans[name], table.coverage))

    def _copying(
        self,
        table: Table,
        plan: Plan,
        coverage: Coverage,
        refresh: str | None = None,
        keys: tuple[Bound, ...] = (),
    ) -> Copying:
        folder_of = mirror_folder if table.key else changes_folder
        folder = folder_of(self._spec.sink.path, table.database, table.name)
        rank, shape = self._spec.snapshot.rank(table.database, table.name), self._shape(table)
        return Copying(table, plan, folder, rank, coverage, shape, refresh, keys)

    def _reading_again(self, name: str, coverage: Coverage, command: str, keys: tuple[Bound, ...]) -> Copying:
        return self._copying(self._tables[name], self._plans[name], coverage, command, keys)

    def _mirror(self, name: str) -> Path:
        return mirror_folder(self._spec.sink.path, self._tables[name].database, self._tables[name].name)

    def _shape(self, table: Table) -> Shape:
        """What of the table is published, as it is now."""
        known = self._shapes.get(table.full_name)
        if known is None or known[0] != table:
            known = table, shape_of(self._spec, table)
            self._shapes[table.full_name] = known
        return known[1]

    @property
    def state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    @property
    def position(self) -> Position:
        """The committed position."""
        return position_from_dict(self.state.position)

    def committed(self) -> Committed:
        """For the monitor."""
        return Committed(self.position, self._last_ts)

    def run(self, until: str | None) -> bool:
        """Run epochs until the goal is reached (True) or a stop was asked for (False); what was read is then committed.

        What is parked does not keep a run from its goal: who runs it looks at `Control.parking`.
        """
        target = current(self._connection, self._source.server)
        self._candidate = Candidate(replace(self.position, gtids=self._gtids.settled), server_time_s(self._connection))
        self._progress.resumed(self.state)
        self._progress.show(self.state)
        self._control.look()  # a goal is not reached while a command waits
        pace, helpers = self._control.pace, self._control.helpers
        self._health = Health(self._source.endpoint, pace, self._control.overloaded, helpers)
        self._away.let_go = self._let_go
        try:
            while not self._reached(until, target):
                if self._control.stopping:
                    self._wind_up()
                    return self._reached(until, target)
                if self._control.paused or self._control.disk.holds():
                    self._pause()
                    continue
                self._control.settle()
                self._epoch()
            return True
        finally:
            self._away.let_go = None
            self._health.close()
            self._snapshot.close()
            self._connection.close()

    def _reached(self, until: str | None, target: Position) -> bool:
        """Whether the goal is reached, and all of it is published: the next epoch deals with a failure there."""
        asked = self._control.asked or self._joining.waiting or self._delivery.waiting
        copied = self.state.copied and self._snapshot.idle and not self._frozen and not asked
        behind = until == "caught-up" and self.position.order < target.order
        if until is None or behind or not (copied or self._only_parked()):
            return False
        self._publisher.settle()
        return not self._publisher.unpublished()

    def _only_parked(self) -> bool:
        """Whether parked chunks are all that is left, and all that commands wait for."""
        busy = self._frozen or self._stopped or not self._snapshot.idle
        left = self._control.parking.left(self.state.tables)
        return bool(left) and not busy and self._refreshes.waits(self.state.tables)

    def _prototype(self) -> ChunkGroup:
        first = self._spec.first_server_id()
        settle_s = self._spec.source.settle_s
        return ChunkGroup(self._source.endpoint, first, self._source.watermarks, settle_s, self._candidate, ())

    def _let_go(self) -> None:
        """A stop waits for no answer of a source that is away; another thread asks for it."""
        break_off(self._connection)
        self._snapshot.let_go()
        self._session.interrupt()

    def _pause(self) -> None:
        self._away.back(EPOCHS)  # there are none now
        self._gather()
        if not self._snapshot.under_way:
            self._control.done("pause")
        self._control.wait(0.2)

    def _wind_up(self) -> None:
        """A graceful stop: what is under way is awaited and committed, so that nothing of it is read again.

        While the source is away nothing more can be committed.
        """
        while self._snapshot.under_way and not self._away.now:
            self._gather()
            clock.sleep(_TICK_S)
        if self._away.now:
            return
        self._gather()
        try:
            with suppress(TransientError):  # it may have gone to sleep in a long pause
                query(self._connection, "DO 0")
            if not self._connection.open:
                self._connection = open_connection(self._source.endpoint)
            while self._frozen or self._stopped or self._refreshes.waiting:
                self._commit_epoch(current(self._connection, self._source.server))
        except SourceAwayError:
            return
        except (TransientError, OSError) as error:
            if is_disk_full(error):
                self._control.disk.met("log", error)  # what was read and finds no room is read again by the next run
            elif not self._away.now:
                raise

    def _gather(self) -> None:
        batch = self._snapshot.collect()
        for finished in batch.finished:
            self._refreshes.take(finished) if finished.refresh else self._frozen.append(finished)
        for name, error in batch.failed.items():
            self._refreshes.failed(name, error)
        for name, error in batch.stopped.items():
            self._stop_table(name, error)

    def _stop_table(self, name: str, error: TidemarkError) -> None:
        """Read no more of a table; the next epoch commits that it stopped."""
        self._drop(name)
        self._stopped[name] = error.as_dict()

    def _drop(self, name: str) -> None:
        """What was read of a table, and what is being read, is of no use."""
        self._snapshot.drop(name)
        self._refreshes.drop(name)
        self._frozen = [f for f in self._frozen if f.table != name]

    def _epoch(self) -> None:
        """One turn: assign, wait until the epoch is due, commit it."""
        due = self._last_epoch + self._spec.poll_interval_s
        while True:
            self._snapshot.assign(self._prototype(), partial(hold, self._control.pace, self._health))
            self._gather()
            if clock.monotonic_s() >= due or self._control.state != "running":
                break
            if self._control.disk.holds():
                return
            if (self._frozen or self._refreshes.waiting) and self._snapshot.idle:
                break
            clock.sleep(_TICK_S)
        self._last_epoch = clock.monotonic_s()
        try:
            self._publisher.check()
            for name, error in self._delivery.failed(self.state, self._tables).items():
                self._stop_table(name, error)
            self._change_tables()
            position = current(self._connection, self._source.server)
            if position.order < self.position.order:
                self._check_source()
                raise went_back(self.position, position)  # never "nothing new"
            captured = {name: (table, self._plans[name]) for name, table in self._tables.items()}
            asked = self._refreshes.begin(self.state.tables, captured) | self._delivery.healed(self.state)
            outdated = position.order > self.position.order
            if self._frozen or outdated or self._stopped or asked or self._refreshes.waiting:
                self._commit_epoch(position, asked)
            self._away.epoch_done()
            self._control.disk.worked("log")
        except (TransientError, LoginRefusedError, OSError) as error:
            self._failed(error)

    def _failed(self, error: TransientError | LoginRefusedError | OSError) -> None:
        """An epoch was not committed."""
        if is_disk_full(error):
            self._control.disk.met("log", error)
        elif isinstance(error, OSError):
            raise error
        else:
            self._retry(error)

    def _whole(self, frozen: Sequence[Finished]) -> list[Finished]:
        """The chunks whose files are there; others are read again: something else than Tidemark has removed them."""
        found = [f for f in frozen if self._delivery.there(self._folder(f.table), f.files)]
        for finished in (f for f in frozen if f not in found):
            self._frozen.remove(finished)
            self._snapshot.lost(finished)
        return found

    def _changes(self, name: str) -> Path:
        return changes_folder(self._spec.sink.path, self._tables[name].database, self._tables[name].name)

    def _folder(self, name: str) -> Path:
        """Where a table's chunks lie."""
        return self._mirror(name) if self._tables[name].key else self._changes(name)

    def _change_tables(self) -> None:
        """Tables join and leave (`run.joining`)."""
        while tables := self._joining.next(self._connection, self.state):
            record = completed(self.state, following(self.state, self._journal.run, tables))
            self._delivery.commit(record)
            for name, change in tables.items():
                self._drop(name)
                for known in (self._tables, self._plans, self._stopped):
                    known.pop(name, None)
                if name not in self.state.tables:
                    self._control.forget(name)
                    continue
                self._take(name, self.state.tables[name])
                if "stopped" not in change:
                    plan = self._plans[name]
                    self._journal.write("table.planned", **plan.told(), chunks=planned_chunks(plan))
            self._control.parking.keep_of(self.state.tables)
            self._publisher.submit(record)
            self._progress.show(self.state)

    def _retry(self, error: TidemarkError) -> None:
        """Wait until the source answers again, or for the next try; a pause and a stop are not waited through.

        Raises the error of a source that was waited for long enough, and one that stays though the source is there.
        """
        while self._control.state == "running":
            self._control.wait(self._away.pause_after(error))
            if self._control.state != "running":
                return
            try:
                self._connection = open_connection(self._source.endpoint)
                self._check_source()
            except (TransientError, LoginRefusedError) as again:
                error = again
            else:
                return

    def _check_source(self) -> None:
        first = self._spec.first_server_id()
        check_source(self.state, self._connection, self._source.endpoint, self._source.server, first)

    def _commit_epoch(self, position: Position, asked: Collection[str] = ()) -> None:
        """Read the log up to `position` (or as far as one epoch goes), commit, and hand the epoch to the publisher."""
        began, seen_s = clock.monotonic_s(), server_time_s(self._connection)
        known = self.position
        due, again = self._due(known), self._refreshes.due(known)
        first = min([known, *(_high(f) for f in due)], key=lambda p: p.order)
        parts = cut(binlog_files(self._connection), first, position, self._session.slots, known)
        end = parts[-1][1] if parts else known
        frozen = self._whole([f for f in due if _high(f).order <= max(end.order, known.order)])
        refreshed, read = self._read_log(parts, frozen, known, again)
        reports, end, alteration = up_to_alteration(read, end)
        if end.order < known.order:
            # It began in front of `known`, for the frozen chunks alone, and did not come back to it.
            reports, frozen = [], []
        # No change behind its high watermark was emitted for a chunk that lies behind the alteration: it waits.
        frozen = [f for f in frozen if _high(f).order <= max(end.order, known.order)]
        self._delivery.require(self._changes, [*reports, *refreshed])
        read_s = clock.monotonic_s() - began
        self._judge(alteration, asked, max([end, known], key=lambda p: p.order))
        record = self._record(known, end, frozen, reports, refreshed)
        self._delivery.commit(record)
        self._refreshes.logged(record)
        published = {f.identity for f in frozen}
        self._frozen = [f for f in self._frozen if f.identity not in published]
        for path in (path for identity in published for path in self._replaced.pop(identity, ())):
            path.unlink(missing_ok=True)
        if end.order >= position.order:
            self._snapshot.log_read(began)
        for name in record["tables"].keys() - self._verdicts.keys():  # those are dropped below
            self._snapshot.committed(name, self.state.tables[name].coverage)
        self._stopped = {}
        self._refreshes.committed(again, refreshed, self._mirror)
        if any(report["defined"] for report in reports):
            self._joining.defined()
        if alteration is not None:
            self._last_epoch = -math.inf  # there may be more behind it
        self._follow_verdicts(alteration)
        self._refreshes.begun(asked)
        self._publisher.submit(record)
        self._last_ts = max([self._last_ts, *(r["last_ts"] for r in reports)])
        self._gtids = self._gtids.behind(reports, mariadb=self._mariadb)
        self._candidate = Candidate(replace(self.position, gtids=self._gtids.settled), seen_s)
        self._journal.write(
            "epoch.committed", **event(record, len(frozen), reports, read_s, clock.monotonic_s() - began)
        )
        for name, change in record["tables"].items():
            if columns := nulled(change):
                self._journal.write("table.nulled", table=name, columns=columns)
        self._progress.show(self.state)
        require_gtids(self._connection, self._source.watermarks, reports)

    def _settled(self, table: Table, start: Position) -> bool:
        """Whether no statement of the log from `start` to its present end concerns the table."""
        end, mariadb = current(self._connection, self._source.server), self._mariadb
        stretch = BinlogStretch({}, start, end, mariadb=mariadb, awaited=[table])
        for _ in read_stretch(self._source.endpoint, stretch, self._spec.first_server_id()):
            pass
        return stretch.altered is None

    def _concerned(self, alteration: Alteration, end: Position) -> Collection[str]:
        source, first = self._source, self._spec.first_server_id()
        return tables_reached(alteration, self._connection, source.endpoint, source.server, end, first)

    def _judge(self, alteration: Alteration | None, asked: Collection[str], end: Position) -> None:
        """Find out what becomes of the tables that were altered, and of those that are to be copied again."""
        self._verdicts = {}  # an attempt that broke off may have left some
        statements: dict[str, str | None] = {}
        if alteration is not None:
            statements |= dict.fromkeys(self._concerned(alteration, end), alteration.statement)
        statements |= dict.fromkeys(asked)
        for name, statement in statements.items():
            known = self.state.tables[name]
            altered = Altered(
                self._tables[name],
                self._plans[name],
                known.copied,
                known.names,
                self._publisher.check_columns,
                known.shape,
                known.stopped,
                end,
                partial(self._settled, self._tables[name], end),
            )
            self._verdicts[name] = verdict(self._connection, self._spec, altered, statement)

    def _follow_verdicts(self, alteration: Alteration | None) -> None:
        """The verdicts are committed: the tables are now what they say."""
        for name, found in self._verdicts.items():
            statement, at = (
                (alteration.statement, alteration.at) if alteration and name in alteration.tables else (None, None)
            )
            self._journal.write(
                "source.event", kind=found.outcome, position=at, table=name, statement=statement, reason=found.reason
            )
            self._drop(name)
            if found.error is not None:
                continue
            self._tables[name], self._plans[name] = found.table.told_apart_by(found.plan.chunk_key), found.plan
            if found.outcome == "copied again":
                self._journal.write("table.planned", **found.plan.told(), chunks=planned_chunks(found.plan))
            if not self.state.tables[name].copied:
                self._snapshot.add(self._copying(self._tables[name], found.plan, self.state.tables[name].coverage))
        self._verdicts = {}

    def _due(self, known: Position) -> list[Finished]:
        """The chunks that an epoch from `known` on may publish; those of moving tables are carried there (`capture.carry`)."""
        able: list[Finished] = []
        others: list[Finished] = []
        for f in self._frozen:
            table = self._tables[f.table]
            (able if moving(table, self._plans[f.table].key(table)) else others).append(f)
        ready = [f for f in able if _high(f).order <= known.order]
        carried = carry_to(known, ready, self._carry, self._session.run)
        self._replaced = carried.replaced
        for name, error in carried.stopped.items():
            self._stop_table(name, error)
        return [f for f in [*others, *carried.chunks] if f.table not in self._stopped]

    def _carry(self, finished: Finished, known: Position) -> Carry:
        copying = self._copying(self._tables[finished.table], self._plans[finished.table], Coverage())
        number, limits = finished.report["chunk"], finished.limits
        refresh, keys, shape = finished.refresh is not None, finished.keys, copying.shape
        request = ChunkRequest(copying.table, number, copying.key, limits, 0, copying.folder, 0, shape, refresh, keys)
        first, mariadb = self._spec.first_server_id(), self._mariadb
        return Carry(self._source.endpoint, first, mariadb, request, finished.files, _high(finished), known)

    def _refresh(self, finished: Finished, known: Position, first_seq: int) -> Refresh:
        table = self._tables[finished.table]
        assert finished.refresh is not None
        log, folder = self._refreshes.log_of(finished.table), self._changes(table.full_name)
        return Refresh(self._carry(finished, known), finished.ghosts, log, folder, first_seq, finished.refresh)

    def _read_log(
        self,
        parts: Sequence[tuple[Position, Position]],
        frozen: Sequence[Finished],
        known: Position,
        again: Sequence[Finished],
    ) -> tuple[list[Report], list[Report]]:
        """The reports of what was read again, whose changes come first, and of the parts of the log."""
        if not parts and not again:
            return [], []
        next_seq = self.state.next_seq
        refreshes = [self._refresh(finished, known, next_seq + n * _PART_SEQ) for n, finished in enumerate(again)]
        follows = tuple(self._follow(name, frozen, known) for name, t in self.state.tables.items() if not t.stopped)
        awaited = tuple(self._tables[name] for name, t in self.state.tables.items() if t.stopped)
        mariadb = self._mariadb
        tasks = [
            Segment(
                self._source.endpoint,
                self._spec.first_server_id(),
                mariadb,
                start,
                end,
                tuple(f for f in follows if f.table.full_name not in self._stopped),
                next_seq + (len(again) + n) * _PART_SEQ,
                awaited,
                known,
            )
            for n, (start, end) in enumerate(parts)
        ]
        told = f"log {parts[0][0]} – {parts[-1][1]}" if parts else f"{len(again)} parts read again, at {known}"
        reports = self._session.run([*refreshes, *tasks], told)
        for report in reports:
            if "failure" in report:
                raise from_dict(report["failure"])
        log = [report for report in reports if "refresh" not in report]
        for report in log:
            check_born(known, report["births"].get(known.file))
        return [report for report in reports if "refresh" in report], log

    def _follow(self, name: str, frozen: Sequence[Finished], known: Position) -> Follow:
        table, plan = self._tables[name], self._plans[name]
        exact = {f.report["chunk"]: _high(f).order for f in frozen if f.table == name}
        coverage = self._snapshot.coverage(name) or self.state.tables[name].coverage
        since = self.state.tables[name].since
        through = max(known.order, position_from_dict(since).order) if since else known.order
        progress = progress_of(coverage.pieces(), through, exact.get)
        return Follow(table, plan.key(table), progress, self._changes(name), self._shape(table))

    def _record(
        self,
        known: Position,
        end: Position,
        frozen: Sequence[Finished],
        reports: Sequence[Report],
        refreshed: Sequence[Report],
    ) -> Record:
        cuts = {}
        for name, chunks in self._snapshot.cut_since().items():
            coverage = self._snapshot.coverage(name)
            assert coverage is not None
            cuts[name] = cut_as_dict(chunks, coverage)
        told = {
            name: found.told(self._tables[name], self.state.tables[name].shape)
            for name, found in self._verdicts.items()
        }
        tables, stopped = table_records(cuts, frozen, reports, self._stopped, told, refreshed)
        self._verdicts = {n: v for n, v in self._verdicts.items() if n not in stopped and n not in self._stopped}
        for name, error in stopped.items():
            self._stop_table(name, error)
            self._delivery.doubted(name, error, self._tables[name])
        logs = [log["next_seq"] for log in [*refreshed, *(t for report in reports for t in report["tables"].values())]]
        to, next_seq = (
            position_after(known, end, reports, self._gtids, mariadb=self._mariadb).as_dict(),
            max([self.state.next_seq, *logs]),
        )
        facts = seen(reports, self.state.largest)
        return completed(
            self.state, following(self.state, self._journal.run, tables, to=to, next_seq=next_seq, **facts)
        )


def _high(finished: Finished) -> Position:
    return position_from_dict(finished.report["high"])
