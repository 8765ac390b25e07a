"""Turns runs of events into changes: transactions, table maps, statements, and the row images of captured tables.

Pure. It takes the `EventBatch`s of a stream that begins between two transactions, and yields `RowChanges` until its end
position is reached. If a table can no longer be captured exactly, it stops (`stop_errors`); if that could be any table,
SourceLostError is raised. A statement that may alter a captured table ends the range before the next transaction
(`alteration`). `run.tables.schema_change` then finds out the table's new definition before more is read.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.errors import DecodeError, DoubtfulRowsError, SourceLostError, TableStoppedError
from engine.base.wording import shell_word
from engine.capture.binlog.event_statistics import EventStatistics
from engine.capture.binlog.one_phase_commits import OnePhaseCommits
from engine.capture.binlog.resolved_events import ResolvedEvents
from engine.capture.binlog.row_changes import FACTS, RowChanges
from engine.capture.binlog.statements import Alteration, LoggedStatement, affected_tables, meaningful, without_values
from engine.capture.binlog.transaction_outcomes import Log, TransactionOutcomes
from engine.capture.binlog.transactions import TransactionFacts, Transactions
from engine.capture.binlog.written_tables import UNKNOWN, written_by
from engine.decode.arrow_schema import image_schema
from engine.decode.binlog_events import BEGINS, ROWS, ROWS_COMPRESSED, Kind, TableMap, among, read_table_map
from engine.decode.framing import Offsets, words
from engine.decode.images import check_table_map, decode_images
from engine.decode.schema import Table
from engine.decode.stream import EventBatch
from engine.decode.unfold import STATEMENTS, unfolded
from engine.source.positions import Position, file_number
from engine.source.xa_places import Prepared, XaPlaces, Xid

_TABLE_ID = np.uint64((1 << 48) - 1)
_NO_TABLE = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)
"""Table ids of row events without rows, which only end a statement (MySQL source, Rows_log_event)."""


class SchemaMismatch(Exception):  # noqa: N818 - a signal, which never reaches a user
    """A table's rows do not match its captured columns, although no statement altered it.

    position: before the rows' transaction, the last position that can be captured. Later changes may have been yielded
    already.
    """

    def __init__(self, table: str, position: Position, error: TableStoppedError) -> None:
        super().__init__(str(error))
        self.position = position
        self.alteration = Alteration((table,), "", "", str(position))
        self._table = table
        self._error = error

    def at(self, position: Position) -> "SchemaMismatch":
        """The same mismatch, for rows that take effect at another position than they are logged at."""
        return SchemaMismatch(self._table, position, self._error)


@dataclass(frozen=True)
class _MappedTable:
    """A captured table, with the binlog's description of its columns."""

    table: Table
    map: TableMap
    fault: TableStoppedError | None = None
    """How the columns differ from the captured ones; None if they do not."""


class BinlogRange:
    """The binlog from `start` to `end`, both between transactions. Captures `tables`, given by database and name.

    absent_tables: tables that do not exist but may be created. since: by full name, the position (`Position.order`)
    through which a table's rows are not needed, so not decoded. handled_through: statements up to this position have
    been handled already. log: see `log`. places: of the XA transactions that were prepared last before `start`, or
    before another position. `position`: after the last event fed. `transactions`: those read. `statistics`: of the
    events fed. `alteration`: why the range ends earlier than requested; `end` is then its actual end. `stop_errors`:
    tables that can no longer be captured, with the reason. `nulled_dates`: dates that became NULL, by table and column.
    `may_define_tables`: whether a statement may have created or renamed tables.
    """

    def __init__(
        self,
        tables: Mapping[tuple[str, str], Table],
        start: Position,
        end: Position,
        *,
        mariadb: bool,
        absent_tables: Sequence[Table] = (),
        log: Log | None = None,
        since: Mapping[str, tuple[float, float]] | None = None,
        handled_through: Position | None = None,
        places: XaPlaces | None = None,
    ) -> None:
        self._since = since or {}
        self._handled_through = (handled_through or start).order
        self.position = start
        self.end = end
        self._tables = dict(tables)
        self._mariadb = mariadb
        self._absent_tables = absent_tables
        self._open_start = start  # before the open transaction
        self._read_through = start  # after the last event read, not counting events held back
        self._ended_early = False
        self._fact = TransactionFacts(np.zeros((1, 3), np.int64), np.zeros(1, np.int64))  # of the last event read
        self.statistics = EventStatistics(mariadb=mariadb)
        self._captures = bool(tables) or bool(absent_tables)
        self._outcomes = TransactionOutcomes(
            start, end, log, self._captured_ids, wants_rows=bool(tables), places=places
        )
        self.alteration: Alteration | None = None
        self.may_define_tables = False
        self.transactions = Transactions(mariadb=mariadb)
        self.one_phase = OnePhaseCommits()
        self.stop_errors: dict[str, TableStoppedError] = {}
        self.nulled_dates: dict[str, Counter[str]] = defaultdict(Counter)
        self._maps: dict[int, _MappedTable | None] = {}

    @property
    def log(self) -> Log | None:
        """The whole binlog.

        Giant and XA transactions are read from it again. Set it before feeding the first of them.
        """
        return self._outcomes.log

    @log.setter
    def log(self, log: Log) -> None:
        self._outcomes.log = log

    @property
    def places(self) -> tuple[XaPlaces, set[Xid]] | None:
        """The XA transactions prepared in the range, and the earlier ones decided in it.

        None if they are not known exactly.
        """
        if self._ended_early or not self._captures:
            return None
        return self._outcomes.places, self._outcomes.decided_earlier

    @property
    def is_done(self) -> bool:
        """Whether the end position has been reached."""
        return self.position.order >= self.end.order

    def feed(self, run: EventBatch) -> Iterator[tuple[Table, str, RowChanges]]:
        """Yield a run's changes with their table and binlog file, in order within each table."""
        if self.is_done:
            return
        if file_number(run.file) > file_number(self.end.file):
            yield from self._process(self._outcomes.flush(file_ended=True))
            self.position = self.end
            return
        past_end = run.file == self.end.file and run.offset[-1] > self.end.offset
        if past_end:
            self.transactions.read_heads(
                run.slice(0, 1)
            )  # the end may be a file's first position: when did that file begin?
            run = run.slice(0, int((run.offset <= self.end.offset).sum()))
        if len(run.headers):
            self.position = Position(run.file, int(run.offset[-1]))
            self.statistics.add(run)
            if self._mariadb:
                self.one_phase.note(run)
            yield from self._process(self._resolve(run))
        if not self._ended_early and (past_end or self.is_done):
            yield from self._process(self._outcomes.flush())
            self.position = self.end

    def _resolve(self, run: EventBatch) -> Iterator[ResolvedEvents]:
        if not self._captures:
            yield ResolvedEvents(run, np.zeros(0, np.uint64), np.zeros(0, np.uint64))
            return
        for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS)), reread=self._read_body_again):
            self.statistics.add_unfolded(plain, run)
            yield from self._outcomes.resolve(plain.run)

    def _process(self, parts: Iterator[ResolvedEvents]) -> Iterator[tuple[Table, str, RowChanges]]:
        for resolved in parts:
            yield from self._read_events(resolved.run, file_number(resolved.run.file))
            self._refuse_uncertain(resolved)
            if self._ended_early:
                return
            if resolved.committed_place is not None:
                yield from self._committed_changes(resolved.run, resolved.committed_place, resolved.rows)

    def _refuse_uncertain(self, resolved: ResolvedEvents) -> None:
        for table_id in (*resolved.rolled_back_ids.tolist(), *resolved.uncertain_ids.tolist()):
            mapped_table = self._maps.get(table_id)
            if mapped_table is not None and (
                table_id in resolved.uncertain_ids or not mapped_table.table.transactional
            ):
                self._stop(mapped_table.table, _uncertain_rows_error(mapped_table.table, resolved.run))

    def _committed_changes(
        self, commit: EventBatch, prepared: Prepared, kept_rows: EventBatch | None
    ) -> Iterator[tuple[Table, str, RowChanges]]:
        """Yield the rows of an XA transaction. If they were not kept, they are read where it was prepared.

        They take effect at its commit.
        """
        maps, self._maps = self._maps, {}
        fact, at, number = self._fact, int(commit.offset[-1]), file_number(commit.file)
        outcomes = TransactionOutcomes(prepared.start, prepared.end, self.log, self._captured_ids, prepared_count=True)
        none = np.zeros(0, np.uint64)
        for resolved in outcomes.read_all() if kept_rows is None else [ResolvedEvents(kept_rows, none, none)]:
            if not self._tables:
                break
            count = len(resolved.run.headers)
            run = replace(resolved.run, file=commit.file, offset=np.full(count, at))
            self._learn_tables(run)
            try:
                yield from self._changes(run, number, fact.at(np.zeros(count, np.int64)))
            except SchemaMismatch as error:
                raise error.at(self._open_start) from error
            self._refuse_uncertain(resolved)
        self._maps = {n: m if m and (m.table.database, m.table.name) in self._tables else None for n, m in maps.items()}

    def _read_body_again(self, batch: EventBatch, n: int) -> bytes | None:
        """Read the body of an event that cannot be decompressed from the server again."""
        end = Position(batch.file, int(batch.offset[n]))
        start = replace(end, offset=end.offset - int(batch.headers.size[n]))
        self.statistics.read_twice()
        for run in self.log.read_batches(start, end) if self.log is not None else ():
            for at in np.flatnonzero((run.offset == end.offset) & (run.headers.kind == batch.headers.kind[n])):
                if run.file == end.file and run.headers.end_position[at]:
                    return run.body(int(at))
        return None

    def _captured_ids(self, run: EventBatch) -> npt.NDArray[np.uint64]:
        """The table ids of the captured tables that a run names."""
        events = np.flatnonzero(run.headers.kind == Kind.TABLE_MAP)
        ids = words(run.buffer)[run.headers.body[events]] & _TABLE_ID
        first = {i: int(events[int(np.argmax(ids == np.uint64(i)))]) for i in _distinct(ids)}
        maps = {i: read_table_map(run.body(n), mariadb=self._mariadb) for i, n in first.items()}
        return np.array([i for i, m in maps.items() if (m.database, m.table) in self._tables], np.uint64)

    def _read_events(self, run: EventBatch, number: int) -> Iterator[tuple[Table, str, RowChanges]]:
        if (run.headers.kind == Kind.FORMAT_DESCRIPTION).any():
            self._maps.clear()  # a restarted server numbers its tables from the beginning
        for part, speaks in self._parts(run):
            if self.alteration is None:
                alteration_event = self._statements(part) if speaks else None
            else:
                alteration_event = -1
                if self.alteration.written_tables is not None:  # its transaction may contain more writes
                    self._statements(self._up_to_next(part, alteration_event))
            to_publish = part
            if alteration_event is not None and self.alteration is not None:
                to_publish = self._up_to_next(part, alteration_event)
                if self.alteration.written_tables is None:
                    # Rows logged with such a statement (CREATE OR REPLACE TABLE … SELECT) already belong to the new
                    # table.
                    self._since = {**self._since, **dict.fromkeys(self.alteration.tables, (math.inf, math.inf))}
            if len(to_publish.headers):
                facts = self.transactions.of(to_publish)
                self._fact = facts.at(np.array([-1]))
                self._learn_tables(to_publish)
                yield from self._changes(to_publish, number, facts)
                self._open_start = self._start_of(to_publish, len(to_publish.headers))
                self._read_through = Position(run.file, int(to_publish.offset[-1]))
            if to_publish is not part:
                self.end = self._read_through
                self.position = self.end
                self._ended_early = True
                return

    def _up_to_next(self, run: EventBatch, event: int) -> EventBatch:
        """The run up to the first transaction that begins after an event; the whole run if there is none."""
        begins = np.flatnonzero(among(run.headers.kind, BEGINS))
        later = begins[begins > event]
        return run.slice(0, int(later[0])) if len(later) else run

    def _start_of(self, run: EventBatch, event: int) -> Position:
        """The position before the transaction that contains an event."""
        begins = np.flatnonzero(among(run.headers.kind[:event], BEGINS))
        if not len(begins):
            return self._open_start
        n = int(begins[-1])
        return Position(run.file, int(run.offset[n - 1])) if n else self._read_through

    def _parts(self, run: EventBatch) -> Iterator[tuple[EventBatch, bool]]:
        """Split the run before each transaction with a meaningful statement, so that everything before it is published.

        Also yields for each part whether it may contain one.
        """
        statements = [one.event for one in meaningful(run, mariadb=self._mariadb)]
        if not statements:
            yield run, False
            return
        begins = np.flatnonzero(among(run.headers.kind, BEGINS))
        splits = {int(begins[begins < n][-1]) for n in statements if (begins < n).any()}
        for begin, end in pairwise([0, *sorted(splits - {0}), len(run.headers)]):
            yield run.slice(begin, end), True

    def _learn_tables(self, run: EventBatch) -> None:
        events = np.flatnonzero(run.headers.kind == Kind.TABLE_MAP)
        ids = words(run.buffer)[run.headers.body[events]] & _TABLE_ID
        for table_id in _distinct(ids) - self._maps.keys():
            event = int(events[int(np.flatnonzero(ids == table_id)[0])])
            self._maps[table_id] = self._map_table(read_table_map(run.body(event), mariadb=self._mariadb))

    def _map_table(self, table_map: TableMap) -> _MappedTable | None:
        table = self._tables.get((table_map.database, table_map.table))
        if table is None:
            return None
        try:
            check_table_map(table, table_map)
        except TableStoppedError as error:
            return _MappedTable(table, table_map, error)
        return _MappedTable(table, table_map)

    def _publishable(self, run: EventBatch, number: int, mapped_table: _MappedTable, events: Offsets) -> Offsets:
        """The row events of a table that may be published.

        Raises SchemaMismatch if they do not match the captured columns.
        """
        since = self._since.get(mapped_table.table.full_name, (0, 0))
        if number <= since[0]:
            events = events[(run.offset[events] > since[1]) & (number == since[0])]
        if len(events) and mapped_table.fault is not None:
            raise SchemaMismatch(mapped_table.table.full_name, self._start_of(run, int(events[0])), mapped_table.fault)
        return events

    def _stop(self, table: Table, error: TableStoppedError) -> None:
        self.stop_errors.setdefault(table.full_name, error)
        self._tables.pop((table.database, table.name), None)
        self._maps = {n: None if m and m.table == table else m for n, m in self._maps.items()}

    def _statements(self, run: EventBatch) -> int | None:
        """Examine a run's statements. Returns the index of the event that altered tables, or None.

        All writes of one transaction are merged. A part contains the statements of only one transaction (see `_parts`).
        """
        first_write: int | None = None
        for statement in meaningful(run, mariadb=self._mariadb):
            n = statement.event
            if (file_number(run.file), int(run.offset[n])) <= self._handled_through:
                continue
            self.may_define_tables = self.may_define_tables or statement.effect.kind != "rebuilds"
            tables = [*([] if statement.effect.creates else self._tables.values()), *self._absent_tables]
            if statement.effect.kind == "writes":
                first_write = n if first_write is None else first_write
                self._record_write(
                    run, statement, affected_tables(statement, tables) if statement.effect.tables else ()
                )
                continue
            names, proved = affected_tables(statement, tables), statement.effect.is_complete
            if (names or not proved) and self.alteration is not None:
                self.alteration = replace(
                    self.alteration, written_tables=UNKNOWN
                )  # DDL between writes, in one transaction
            elif names or not proved:
                self.alteration = Alteration(
                    names,
                    statement.database,
                    statement.statement,
                    f"{run.file}:{run.offset[n]}",
                    alter=statement.effect.alter,
                    unproved_since=None if proved else int(run.headers.timestamp[n]),
                )
                return n
        return first_write

    def _record_write(self, run: EventBatch, statement: LoggedStatement, created_tables: tuple[str, ...]) -> None:
        """Record a write that is logged as a statement.

        `run.tables.statement_reach` asks the catalog which tables it reaches.

        created_tables: tables that it creates or replaces by a SELECT.
        """
        if not self._tables and not created_tables:
            return
        targets = (
            written_by(statement.readable, statement.database) if statement.readable and not created_tables else UNKNOWN
        )
        if self.alteration is not None and self.alteration.written_tables is not None:
            self.alteration = replace(self.alteration, written_tables=self.alteration.written_tables | targets)
        elif self.alteration is None:
            captured_names = [t.full_name for t in self._tables.values()]
            names, at = (
                tuple(dict.fromkeys([*captured_names, *created_tables])),
                f"{run.file}:{run.offset[statement.event]}",
            )
            self.alteration = Alteration(names, statement.database, without_values(statement.readable), at, targets)

    def _changes(
        self, run: EventBatch, number: int, facts: TransactionFacts
    ) -> Iterator[tuple[Table, str, RowChanges]]:
        rows = np.flatnonzero(among(run.headers.kind, ROWS))
        ids = words(run.buffer)[run.headers.body[rows]] & _TABLE_ID
        is_compressed = among(run.headers.kind[rows], tuple(ROWS_COMPRESSED))
        if (
            is_compressed.any()
            and (is_compressed := is_compressed & np.isin(ids, [n for n, m in self._maps.items() if m])).any()
        ):
            for plain in unfolded(run, rows[is_compressed], reread=self._read_body_again):
                yield from self._changes(plain.run, number, facts.at(plain.source))
            return
        events_of: dict[Table, list[tuple[TableMap, Offsets]]] = {}
        for table_id in sorted(_distinct(ids)):
            if table_id not in self._maps and table_id not in _NO_TABLE:
                raise SourceLostError(
                    f"The binlog {run.file} contains rows of a table that it does not name.",
                    detail="They may belong to a captured table. Nothing of this binlog range was published.",
                    hint="Report this with the server's version.",
                )
            mapped_table = self._maps.get(table_id)
            if mapped_table is not None and len(
                events := self._publishable(run, number, mapped_table, rows[ids == table_id])
            ):
                events_of.setdefault(mapped_table.table, []).append((mapped_table.map, events))
        for table, groups in events_of.items():
            try:
                parts = [self._images(run, number, facts, table, mapped, events) for mapped, events in groups]
            except TableStoppedError as error:
                self._stop(table, error)
                continue
            changes = parts[0][1] if len(parts) == 1 else _interleave(parts)
            if len(changes):
                yield table, run.file, changes

    def _images(
        self,
        run: EventBatch,
        number: int,
        facts: TransactionFacts,
        table: Table,
        table_map: TableMap,
        events: Offsets,
    ) -> tuple[Offsets, RowChanges]:
        images = decode_images(run.buffer, run.headers, events, table, table_map, self.nulled_dates[table.full_name])
        image_facts = facts.at(images.event)
        columns = [images.kind, np.full(len(images.kind), number), run.offset[images.event]]
        columns += [column[image_facts.of] for column in image_facts.table.T]
        rows = pa.table(images.rows, schema=image_schema(table))
        about = pa.table([pa.array(c) for c in columns], schema=FACTS)
        return images.event, RowChanges(rows, about, self.transactions.sources)


def _distinct(ids: npt.NDArray[np.uint64]) -> set[int]:
    """The distinct table ids; equal ids come in long runs."""
    return set(ids[np.flatnonzero(np.diff(ids, prepend=~ids[:1]))].tolist())


def _interleave(parts: list[tuple[Offsets, RowChanges]]) -> RowChanges:
    """Merge one table's changes under several table ids, in event order."""
    changes = [part for _, part in parts]
    rows, facts = pa.concat_tables(p.rows for p in changes), pa.concat_tables(p.facts for p in changes)
    order = np.argsort(np.concatenate([event for event, _ in parts]), kind="stable")
    return RowChanges(rows, facts, changes[-1].sources).take(order)


def _uncertain_rows_error(table: Table, run: EventBatch) -> DecodeError:
    return DoubtfulRowsError(
        f"{table.full_name}: rows of a transaction that ends at or before {run.file}:{run.offset[-1]} may have been "
        "rolled back.",
        detail="Its engine cannot roll back, or a savepoint's name was set twice, perhaps by a trigger. Tidemark does "
        "not guess; nothing of the binlog range was published for the table.",
        hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(table.full_name)}",
    )
