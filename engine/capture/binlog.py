"""From runs of events to changes: transactions, table maps, statements, and the row images of captured tables.

Pure: it is fed `Run`s of a stream that begins between two transactions and gives back `Changes` until its end position is reached.
What cannot be followed exactly stops the table that it concerns (`stopped`), or raises SourceLostError where it could concern
any. A statement that may alter what a captured table's rows are ends the stretch in front of the transaction that follows it
(`altered`): what the table is from there on is found out before more is read (`run.altering`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.capture.changes import FACTS, Changes
from engine.capture.statements import Alteration, concerned, creates, meaningful, writes
from engine.capture.transactions import Transactions
from engine.decode.events import (
    BEGINS,
    ROWS_V1,
    ROWS_V2,
    Kind,
    TableMap,
    read_table_map,
    refuse_unknown,
)
from engine.decode.framing import Offsets, words
from engine.decode.images import check_table_map, decode_images
from engine.decode.schema import Table, arrow_schema
from engine.decode.stream import Run
from engine.errors import SourceLostError, TableStoppedError
from engine.source.positions import Position, file_number

_TABLE_ID = np.uint64((1 << 48) - 1)
_NO_TABLE = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)
"""Table ids of row events without rows, which only end a statement (MySQL source, Rows_log_event)."""


class SchemaMismatch(Exception):  # noqa: N818 - a signal, which never reaches a user
    """The rows of a table are not as it is captured, though no statement has said so.

    position: in front of their transaction, the last place that can be followed. Changes behind it may have been given already.
    """

    def __init__(self, table: str, position: Position, error: TableStoppedError) -> None:
        super().__init__(str(error))
        self.position = position
        self.alteration = Alteration((table,), "", "", str(position))


class BinlogStretch:
    """The binlog from `start` to `end`, both between transactions; captures `tables` (by database and name).

    awaited: tables that are not there but may come. `position`: behind the last event that was seen. `transactions`: those seen.
    `altered`: why the stretch ends earlier than asked for; `end` is then where it does. `stopped`: tables that cannot be followed,
    with the reason. `nulled`: dates that became NULL, by table and column.
    """

    def __init__(
        self,
        tables: Mapping[tuple[str, str], Table],
        start: Position,
        end: Position,
        *,
        mariadb: bool,
        awaited: Sequence[Table] = (),
    ) -> None:
        self.position, self.end, self._tables, self._mariadb = start, end, dict(tables), mariadb
        self._awaited = awaited
        self._opened = start  # in front of the transaction that goes on
        self.altered: Alteration | None = None
        self.transactions = Transactions(mariadb=mariadb)
        self.stopped: dict[str, TableStoppedError] = {}
        self.nulled: dict[str, Counter[str]] = defaultdict(Counter)
        self._maps: dict[int, tuple[Table, TableMap] | None] = {}

    @property
    def done(self) -> bool:
        """Whether the end position was reached."""
        return self.position.order >= self.end.order

    def feed(self, run: Run) -> Iterator[tuple[Table, str, Changes]]:
        """The changes of a run, in order within each table, with the file they come from."""
        number = file_number(run.file)
        if number > file_number(self.end.file):
            self.position = self.end
            return
        behind = run.file == self.end.file and run.offset[-1] > self.end.offset
        if behind:
            run = run.slice(0, int((run.offset <= self.end.offset).sum()))
        if len(run.headers):
            yield from self._read(run, number)
        if behind and not self.done:
            self.position = self.end

    def _read(self, run: Run, number: int) -> Iterator[tuple[Table, str, Changes]]:
        refuse_unknown(run.headers)
        self._refuse_prepared(run)
        if (run.headers.kind == Kind.FORMAT_DESCRIPTION).any():
            self._maps.clear()  # table ids begin anew when the server restarts
        for part in self._parts(run):
            altered = None if self.altered is None else -1
            dropped, statement = self._statements(part)
            altered = statement if altered is None else altered
            whole = part if altered is None else self._up_to_next(part, altered)
            if len(whole.headers):
                facts = self.transactions.of(whole)
                self._learn_tables(whole)
                yield from self._changes(whole, number, facts, dropped)
                self._opened = self._opening(whole, len(whole.headers))
                self.position = Position(run.file, int(whole.offset[-1]))
            if whole is not part:
                self.end = self.position
                return

    def _up_to_next(self, run: Run, event: int) -> Run:
        """The run up to the first transaction that begins behind an event; the run itself when there is none."""
        begins = np.flatnonzero(np.isin(run.headers.kind, BEGINS))
        later = begins[begins > event]
        return run.slice(0, int(later[0])) if len(later) else run

    def _opening(self, run: Run, event: int) -> Position:
        """The place in front of the transaction that an event belongs to."""
        begins = np.flatnonzero(np.isin(run.headers.kind[:event], BEGINS))
        if not len(begins):
            return self._opened
        n = int(begins[-1])
        return Position(run.file, int(run.offset[n - 1])) if n else self.position

    def _parts(self, run: Run) -> Iterator[Run]:
        """The run, cut in front of each transaction with a statement of meaning: what lies before it is to be published."""
        begins = np.flatnonzero(np.isin(run.headers.kind, BEGINS))
        cuts = {int(begins[begins < n][-1]) for n, _, _ in meaningful(run) if (begins < n).any()}
        for begin, end in pairwise([0, *sorted(cuts - {0}), len(run.headers)]):
            yield run.slice(begin, end)

    def _refuse_prepared(self, run: Run) -> None:
        if (run.headers.kind == Kind.XA_PREPARE).any():
            raise _xa(run)

    def _learn_tables(self, run: Run) -> None:
        events = np.flatnonzero(run.headers.kind == Kind.TABLE_MAP)
        ids = words(run.buffer)[run.headers.body[events]] & _TABLE_ID
        for table_id in np.setdiff1d(ids, np.fromiter(self._maps, np.uint64)).tolist():
            event = int(events[int(np.flatnonzero(ids == table_id)[0])])
            mapped = read_table_map(run.body(event), mariadb=self._mariadb)
            try:
                self._maps[table_id] = self._mapped(mapped)
            except TableStoppedError as error:
                raise SchemaMismatch(f"{mapped.database}.{mapped.table}", self._opening(run, event), error) from error

    def _mapped(self, mapped: TableMap) -> tuple[Table, TableMap] | None:
        table = self._tables.get((mapped.database, mapped.table))
        if table is None:
            return None
        check_table_map(table, mapped)
        return table, mapped

    def _stop(self, table: Table, error: TableStoppedError) -> None:
        self.stopped.setdefault(table.full_name, error)
        self._tables.pop((table.database, table.name), None)
        self._maps = {n: None if m and m[0] == table else m for n, m in self._maps.items()}

    def _statements(self, run: Run) -> tuple[npt.NDArray[np.bool_] | None, int | None]:
        """Look at the statements of a run.

        Gives the mask of events whose transaction was rolled back, None when there is none, and the number of the event that
        altered tables, None when none did.
        """
        dropped = None
        for n, database, statement in meaningful(run):
            if re.match(r"(?i)ROLLBACK\b", statement):
                dropped = self._roll_back(run, n, statement, dropped)
            elif re.match(r"(?i)XA\s+COMMIT\b", statement):
                raise _xa(run)
            elif writes(statement):
                for table in list(self._tables.values()):
                    self._stop(table, _written(table, statement, run, n))
            else:
                tables = [*([] if creates(statement) else self._tables.values()), *self._awaited]
                names = tuple(t.full_name for t in tables if concerned(statement, database, t))
                if names:
                    self.altered = Alteration(names, database, statement, f"{run.file}:{run.offset[n]}")
                    return dropped, n
        return dropped, None

    def _roll_back(
        self, run: Run, event: int, statement: str, dropped: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[np.bool_]:
        begins = np.flatnonzero(np.isin(run.headers.kind[:event], BEGINS))
        if re.match(r"(?i)ROLLBACK\s+TO\b|ROLLBACK\s+WORK\s+TO\b", statement) or not len(begins):
            raise SourceLostError(
                f"The binlog {run.file}:{run.offset[event]} rolls a logged transaction back in part.",
                detail="It wrote to tables of different engines, and which of its rows count cannot be told; the position "
                "stays in front of it.",
                hint="Use one storage engine in a transaction; then copy the tables again.",
            )
        mask = np.zeros(len(run.headers), bool) if dropped is None else dropped
        mask[begins[-1] : event] = True
        return mask

    def _changes(
        self, run: Run, number: int, facts: npt.NDArray[np.int64], dropped: npt.NDArray[np.bool_] | None
    ) -> Iterator[tuple[Table, str, Changes]]:
        kind = run.headers.kind
        chosen = np.isin(kind, (*ROWS_V1, *ROWS_V2))
        if dropped is not None:
            chosen &= ~dropped[: len(kind)]
        rows = np.flatnonzero(chosen)
        ids = words(run.buffer)[run.headers.body[rows]] & _TABLE_ID
        events_of: dict[Table, list[tuple[TableMap, Offsets]]] = {}
        for table_id in np.unique(ids).tolist():
            if table_id not in self._maps and table_id not in _NO_TABLE:
                raise SourceLostError(
                    f"The binlog {run.file} holds rows of a table that it does not name.",
                    detail="They may belong to a captured table; nothing of this stretch was published.",
                    hint="Report this with the server's version.",
                )
            mapped = self._maps.get(table_id)
            if mapped is not None:
                events_of.setdefault(mapped[0], []).append((mapped[1], rows[ids == table_id]))
        for table, groups in events_of.items():
            try:
                parts = [self._images(run, number, facts, table, mapped, events) for mapped, events in groups]
            except TableStoppedError as error:
                self._stop(table, error)
                continue
            changes = parts[0] if len(parts) == 1 else _interleaved(parts)
            if len(changes):
                yield table, run.file, changes

    def _images(
        self,
        run: Run,
        number: int,
        facts: npt.NDArray[np.int64],
        table: Table,
        mapped: TableMap,
        events: Offsets,
    ) -> Changes:
        images = decode_images(run.buffer, run.headers, events, table, mapped, self.nulled[table.full_name])
        of = facts[images.event]
        columns = [images.kind, np.full(len(of), number), run.offset[images.event], *of.T]
        schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
        rows = pa.table(images.rows, schema=schema)
        return Changes(rows, pa.table([pa.array(c) for c in columns], schema=FACTS), self.transactions.sources)


def _interleaved(parts: list[Changes]) -> Changes:
    """Changes of one table that came under several table ids, in the binlog's order."""
    rows, facts = pa.concat_tables(p.rows for p in parts), pa.concat_tables(p.facts for p in parts)
    order = np.argsort(facts["offset"].to_numpy(), kind="stable")
    return Changes(rows, facts, parts[-1].sources).take(order)


def _xa(run: Run) -> SourceLostError:
    return SourceLostError(
        f"The binlog {run.file} holds an XA transaction.",
        detail="Its rows are logged when it is prepared and count only if it is committed later, which this version "
        "does not follow; the position stays in front of it.",
        hint="Exclude XA transactions from this server, or copy the tables again behind them.",
    )


def _written(table: Table, statement: str, run: Run, event: int) -> TableStoppedError:
    return TableStoppedError(
        f"{table.full_name}: a write at {run.file}:{run.offset[event]} is logged as a statement: {statement[:200]}",
        detail="It may have changed any row of any table; what is published is right up to that position.",
        hint="Let all sessions write with binlog_format = ROW, then copy the table again: python -m engine redump.",
    )
