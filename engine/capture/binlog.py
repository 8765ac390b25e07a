"""From runs of events to changes: transactions, table maps, statements, and the row images of captured tables.

Pure: it is fed `Run`s of a stream that begins between two transactions and gives back `Changes` until its end position is reached.
What cannot be followed exactly stops the table that it concerns (`stopped`), or raises SourceLostError where it could concern
any. In this version every statement that may alter the meaning of a captured table's rows stops that table.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.capture.changes import FACTS, Changes
from engine.decode.events import (
    BEGINS,
    ROWS_V1,
    ROWS_V2,
    Kind,
    TableMap,
    read_query,
    read_table_map,
    refuse_unknown,
)
from engine.decode.framing import Offsets, words
from engine.decode.gtid import GtidSet, gtid_set_of, read_previous_gtids
from engine.decode.images import check_table_map, decode_images
from engine.decode.schema import Table, arrow_schema
from engine.decode.stream import Run
from engine.errors import SourceLostError, TableStoppedError
from engine.source.positions import Position, file_number

_TABLE_ID = np.uint64((1 << 48) - 1)
_NO_TABLE = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)
"""Table ids of row events without rows, which only end a statement (MySQL source, Rows_log_event)."""
_BEGIN = np.uint64(int.from_bytes(b"\0BEGIN", "little"))
_COMMENTS = re.compile(r"^(\s|/\*(?!M?!).*?\*/|--[^\n]*\n|#[^\n]*\n)+", re.DOTALL)
_VERSIONED = re.compile(r"/\*M?!\d*\s?(.*?)\*/", re.DOTALL)
# Dropping an index is not harmless: it may be the one that makes the identity unique. Nor is what MariaDB lets follow
# `SET STATEMENT … FOR` and `ANALYZE`, or a second action of an ALTER TABLE.
_HARMLESS = re.compile(
    r"(?is)^((BEGIN|COMMIT|SAVEPOINT|RELEASE|GRANT|REVOKE|FLUSH|OPTIMIZE|CHECK|SET(?!\s+STATEMENT\b)"
    r"|ANALYZE\s+((NO_WRITE_TO_BINLOG|LOCAL)\s+)?TABLES?|CREATE\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX"
    r"|CREATE\s+TABLE|(CREATE|ALTER|DROP)\s+(USER|ROLE|DATABASE\s+IF\s+NOT|SERVER)"
    # Programs and views name tables without changing one; what they write later is logged as rows.
    r"|(CREATE|ALTER|DROP)\s+(OR\s+REPLACE\s+)?(ALGORITHM\s*=\s*\w+\s+)?(DEFINER\s*=\s*\S+\s+)?(SQL\s+SECURITY\s+\w+\s+)?"
    r"(AGGREGATE\s+)?(VIEW|PROCEDURE|FUNCTION|TRIGGER|EVENT))\b"
    r"|ALTER\s+TABLE\s+\S+\s+((DISABLE|ENABLE)\s+KEYS|AUTO_INCREMENT\s*=?\s*\d+"
    r"|ADD\s+(INDEX|KEY)\s+[^,()]*\([^()]*\))\s*;?\s*$)"
)


# Logged as a statement, a write can reach any table, through views, triggers, routines and cascades. What the server itself
# logs when a MEMORY table comes back empty reaches none but that one.
_WRITES = re.compile(
    r"(?is)(SET\s+STATEMENT\s.*?\sFOR\s+)?"
    r"(INSERT|UPDATE|REPLACE|LOAD|WITH|SELECT|CALL|DO|DELETE(?!\s+FROM\s+`?[\w$]+`?\.`?[\w$]+`?\s*$))\b"
)


class BinlogStretch:
    """The binlog from `start` to `end`, both between transactions; captures `tables` (by database and name).

    `position`: behind the last event that was seen. `gtids`, `transactions`, `bytes`, `last_ts`: of what was seen.
    `stopped`: tables that cannot be followed, with the reason. `nulled`: dates that became NULL, by table and column.
    """

    def __init__(
        self, tables: Mapping[tuple[str, str], Table], start: Position, end: Position, *, mariadb: bool
    ) -> None:
        self.position, self.end, self._tables, self._mariadb = start, end, dict(tables), mariadb
        self.gtids, self.transactions, self.bytes, self.last_ts = GtidSet(), 0, 0, 0
        self.stopped: dict[str, TableStoppedError] = {}
        self.nulled: dict[str, Counter[str]] = defaultdict(Counter)
        self._maps: dict[int, tuple[Table, TableMap] | None] = {}
        self._transaction = np.zeros((1, 4), np.int64)  # ts, tx_a, tx_b, tx_n of the transaction that goes on

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
        if run.file == self.end.file and run.offset[-1] > self.end.offset:
            run = run.slice(0, int((run.offset <= self.end.offset).sum()))
            self.position = self.end
        if not len(run.headers):
            return
        refuse_unknown(run.headers)
        self._refuse_prepared(run)
        if (run.headers.kind == Kind.FORMAT_DESCRIPTION).any():
            self._maps.clear()  # table ids begin anew when the server restarts
        for n in np.flatnonzero(run.headers.kind == Kind.PREVIOUS_GTIDS).tolist():
            self.gtids = self.gtids.union(read_previous_gtids(run.body(n)))
        for part in self._parts(run):
            facts = self._transactions(part)
            dropped = self._statements(part)
            self._learn_tables(part)
            yield from self._changes(part, number, facts, dropped)
        if not self.done:
            self.position = Position(run.file, int(run.offset[-1]))

    def _parts(self, run: Run) -> Iterator[Run]:
        """The run, cut in front of each transaction with a statement of meaning: what lies before it is to be published."""
        begins = np.flatnonzero(np.isin(run.headers.kind, BEGINS))
        cuts = {int(begins[begins < n][-1]) for n, _, _ in _meaningful(run) if (begins < n).any()}
        for begin, end in pairwise([0, *sorted(cuts - {0}), len(run.headers)]):
            yield run.slice(begin, end)

    def _transactions(self, run: Run) -> npt.NDArray[np.int64]:
        """ts, tx_a, tx_b, tx_n of each event's transaction."""
        headers, loads = run.headers, words(run.buffer)
        begins = np.flatnonzero(np.isin(headers.kind, BEGINS))
        body = headers.body[begins]
        table = np.zeros((len(begins) + 1, 4), np.int64)
        table[0] = self._transaction
        table[1:, 0] = headers.timestamp[begins]
        if self._mariadb:
            # Body: number (8), domain (4), flags; the server id stands in the header.
            table[1:, 1] = (loads[body + 8] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            table[1:, 2] = (loads[body - 14] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            table[1:, 3] = loads[body].view(np.int64)
        else:
            # Body: flags (1), server uuid (16), number (8).
            low, high, number = loads[body + 1], loads[body + 9], loads[body + 17].view(np.int64)
            named = headers.kind[begins] == Kind.GTID
            table[1:, 1], table[1:, 2] = low.view(np.int64), high.view(np.int64)
            table[1:, 3] = np.where(named, number, 0)
            self.gtids = self.gtids.union(gtid_set_of(low[named], high[named], number[named]))
        self.transactions += len(begins)
        self.bytes += int(headers.size.sum())
        if len(headers):
            self.last_ts = max(self.last_ts, int(headers.timestamp[-1]))
        self._transaction = table[-1]
        return np.asarray(table[np.searchsorted(begins, np.arange(len(headers)), side="right")])

    def _refuse_prepared(self, run: Run) -> None:
        if (run.headers.kind == Kind.XA_PREPARE).any():
            raise _xa(run)

    def _learn_tables(self, run: Run) -> None:
        events = np.flatnonzero(run.headers.kind == Kind.TABLE_MAP)
        ids = words(run.buffer)[run.headers.body[events]] & _TABLE_ID
        for table_id in np.setdiff1d(ids, np.fromiter(self._maps, np.uint64)).tolist():
            event = int(events[int(np.flatnonzero(ids == table_id)[0])])
            self._maps[table_id] = self._mapped(read_table_map(run.body(event), mariadb=self._mariadb))

    def _mapped(self, mapped: TableMap) -> tuple[Table, TableMap] | None:
        table = self._tables.get((mapped.database, mapped.table))
        if table is None:
            return None
        try:
            check_table_map(table, mapped)
        except TableStoppedError as error:
            self._stop(table, error)
            return None
        return table, mapped

    def _stop(self, table: Table, error: TableStoppedError) -> None:
        self.stopped.setdefault(table.full_name, error)
        self._tables.pop((table.database, table.name), None)
        self._maps = {n: None if m and m[0] == table else m for n, m in self._maps.items()}

    def _statements(self, run: Run) -> npt.NDArray[np.bool_] | None:
        """Look at the statements of a run; the mask of events whose transaction was rolled back, None when there is none."""
        dropped = None
        for n, database, statement in _meaningful(run):
            if re.match(r"(?i)ROLLBACK\b", statement):
                dropped = self._roll_back(run, n, statement, dropped)
            elif re.match(r"(?i)XA\s+COMMIT\b", statement):
                raise _xa(run)
            else:
                for table in list(self._tables.values()):
                    if _concerns(statement, database, table) or _WRITES.match(statement):
                        self._stop(table, _altered(table, statement, run, n))
        return dropped

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
            chosen &= ~dropped
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
                nulled = self.nulled[table.full_name]
                parts = [_images(run, number, facts, table, mapped, events, nulled) for mapped, events in groups]
            except TableStoppedError as error:
                self._stop(table, error)
                continue
            changes = parts[0] if len(parts) == 1 else _interleaved(parts)
            if len(changes):
                yield table, run.file, changes


def _images(
    run: Run,
    number: int,
    facts: npt.NDArray[np.int64],
    table: Table,
    mapped: TableMap,
    events: Offsets,
    nulled: Counter[str],
) -> Changes:
    images = decode_images(run.buffer, run.headers, events, table, mapped, nulled)
    of = facts[images.event]
    columns = [images.kind, np.full(len(of), number), run.offset[images.event], of[:, 0], of[:, 1].view(np.uint64)]
    columns += [of[:, 2].view(np.uint64), of[:, 3]]
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    return Changes(pa.table(images.rows, schema=schema), pa.table([pa.array(c) for c in columns], schema=FACTS))


def _interleaved(parts: list[Changes]) -> Changes:
    """Changes of one table that came under several table ids, in the binlog's order."""
    rows, facts = pa.concat_tables(p.rows for p in parts), pa.concat_tables(p.facts for p in parts)
    order = np.argsort(facts["offset"].to_numpy(), kind="stable")
    return Changes(rows, facts).take(order)


def _meaningful(run: Run) -> Iterator[tuple[int, str, str]]:
    """The statements that may concern a captured table: number of the event, default database, text without comments."""
    queries = np.flatnonzero(run.headers.kind == Kind.QUERY)
    tail = words(run.buffer)[run.headers.end[queries] - 8] >> np.uint64(16)
    for n in queries[tail != _BEGIN].tolist():
        query = read_query(run.body(n))
        statement = _VERSIONED.sub(r"\1", _COMMENTS.sub("", query.statement)).strip()
        if not _HARMLESS.match(statement):
            yield n, query.database, statement


def _xa(run: Run) -> SourceLostError:
    return SourceLostError(
        f"The binlog {run.file} holds an XA transaction.",
        detail="Its rows are logged when it is prepared and count only if it is committed later, which this version "
        "does not follow; the position stays in front of it.",
        hint="Exclude XA transactions from this server, or copy the tables again behind them.",
    )


def _concerns(statement: str, database: str, table: Table) -> bool:
    """Whether a statement may be about a table; in doubt, yes."""

    def mentions(name: str) -> bool:
        if not name.isascii() and "\ufffd" in statement:
            return True  # written in another character set than UTF-8
        quoted = re.escape(name.replace("`", "``"))
        return re.search(rf"(?i)(?<![\w$])({re.escape(name)}|{quoted})(?![\w$])", statement) is not None

    if re.match(r"(?i)DROP\s+(DATABASE|SCHEMA)\b", statement):
        return mentions(table.database)
    return mentions(table.name) and (database.casefold() == table.database.casefold() or mentions(table.database))


def _altered(table: Table, statement: str, run: Run, event: int) -> TableStoppedError:
    return TableStoppedError(
        f"{table.full_name}: a statement at {run.file}:{run.offset[event]} may have changed the table: {statement[:200]}",
        detail="This version does not follow schema changes and statement-format writes; what is published is right up to "
        "that position.",
        hint="Remove the table from the pipeline's destination and ledger and copy it anew.",
    )
