"""The source's transactions as mysql-replication decodes them, row by row.

The package reads the binlog over a connection of ours, which looks at each event's header first (`Frames`). Events of
tables that are not audited never reach the package. Nor do events that it cannot decode: their positions are noted with
the reason (`audit_limits`), and images at these positions are not compared.

Which rows count is decided here, apart from `capture.binlog.transaction_outcomes`: rows count when their transaction
ends with a commit; those after a savepoint that is rolled back do not; those of an XA transaction count at its commit.
A transaction of more than `MOST_BYTES` is passed on before its end. If it is rolled back then, its tables are `unsure`.
"""

import logging
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader, event, row_event

from engine.audit.audit_values import LABELS, UNSURE, Unsure
from engine.base.errors import BinlogDamagedError, TidemarkError, TransientError
from engine.capture.position_order import pack
from engine.decode.schema import Table, TableName
from engine.source.connect import Connection, Endpoint, explain, open_connection
from engine.source.positions import FIRST_OFFSET, Position, file_number
from engine.source.replication import server_id

logging.getLogger("pymysqlreplication").addHandler(logging.NullHandler())
"""Its notices about settings that an audit does not need would go to stderr. What it cannot decode is counted."""

MOST_BYTES = 64 << 20
"""Bytes of an open transaction, as Python's values, that are held back until its outcome is known."""
_VALUE_BYTES = 60
"""About what a Python value takes beside its content."""
_LARGEST_OFFSET = 0xFFFFFFFF
_HEADER = 20
"""An OK byte and the common header of an event."""
_ARTIFICIAL = 0x20
_ROTATE, _TABLE_MAP, _PARTIAL, _PAYLOAD = 4, 19, 39, 40
_ROWS = frozenset((23, 24, 25, 30, 31, 32))
_COMPRESSED_QUERY = 165
_COMPRESSED_ROWS = frozenset(range(166, 172))
_TAGGED = 42
_DECODED = frozenset((2, 4, 15, 16, 33, 34, 38, _TAGGED, 162, _COMPRESSED_QUERY))
"""Further events that the package must see: QUERY, ROTATE, FORMAT_DESCRIPTION, XID, GTIDs, XA_PREPARE."""
_UNKNOWN_TYPES = {140: "COMPRESSED", 141: "COMPRESSED", 242: "VECTOR"}
_EVENTS = [
    event.QueryEvent,
    event.RotateEvent,
    event.XidEvent,
    event.GtidEvent,
    event.MariadbGtidEvent,
    event.XAPrepareEvent,
    event.NotImplementedEvent,
    row_event.TableMapEvent,
    row_event.WriteRowsEvent,
    row_event.UpdateRowsEvent,
    row_event.DeleteRowsEvent,
]
_INVALID = frozenset((1300, 3854))
"""Errors of the server for bytes that are no text in the character set."""
_XA = re.compile(r"(?i)XA\s+(COMMIT|ROLLBACK)\s+X'([0-9a-f]*)',X'([0-9a-f]*)',(-?\d+)")
_SAVEPOINT = re.compile(r"(?i)SAVEPOINT\s+(.*?)\s*$", re.DOTALL)
_ROLLBACK_TO = re.compile(r"(?i)ROLLBACK(?:\s+WORK)?\s+TO(?:\s+SAVEPOINT)?\s+(.*?)\s*$", re.DOTALL)


@dataclass(frozen=True)
class EventRows:
    """The rows of one row event."""

    table: TableName
    order: int
    """The position after the event, packed; of an XA transaction, after its commit."""
    kinds: tuple[str, ...]
    """The kinds of a row's images: `+I`, `-D`, or `-U` and `+U`."""
    rows: Sequence[Mapping[str, Any]]
    ts: int = 0
    """When the transaction was committed, in seconds since 1970."""
    tx: str | Unsure | None = None
    """The GTID."""
    transaction: int = 0
    """Counts transactions."""
    size: int = 0
    """About how many bytes the rows take."""


@dataclass
class _OpenTransaction:
    """A transaction that has begun."""

    ts: int
    tx: str | Unsure | None
    number: int
    rows: list[EventRows] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    size: int = 0
    held_back: bool = False
    """Whether it is an XA transaction, whose rows count later."""
    passed: set[TableName] = field(default_factory=set)
    """The tables of rows that have been passed on before its end."""


@dataclass
class Frames:
    """What the headers of the events say; the package sees only what `admit` accepts."""

    wanted: Collection[TableName]
    names: dict[int, str]
    """The binlog files, by number."""
    file: str
    order: int = 0
    """The position after the newest event, packed."""
    kind: int = 0
    tables: dict[int, TableName] = field(default_factory=dict)
    """Audited tables, by their number in the binlog."""
    opaque: dict[TableName, dict[int, str]] = field(default_factory=dict)
    """By table, positions of images that cannot be decoded, with the limit."""
    anywhere: dict[int, str] = field(default_factory=dict)
    """The same for positions whose table is not known."""
    undecoded: dict[TableName, str] = field(default_factory=dict)
    """Tables whose images cannot be decoded, with the reason."""

    def admit(self, packet: bytes) -> bool:
        """Note an event's position; return whether the package can read it and must."""
        kind, flags = packet[5], int.from_bytes(packet[18:20], "little")
        end = int.from_bytes(packet[14:18], "little")
        self.kind = kind
        if end and not flags & _ARTIFICIAL and kind != _ROTATE:
            number = file_number(self.file)
            end += (self.order & ~0xFFFFFFFF) - pack(number, 0) if self.order >= pack(number, 0) else 0
            end += 1 << 32 if pack(number, end) < self.order else 0
            self.order = pack(number, end)
        body = packet[_HEADER:]
        if kind == _TABLE_MAP:
            return self._mapped(body)
        if kind in _ROWS or kind in _COMPRESSED_ROWS or kind == _PARTIAL:
            table = self.tables.get(int.from_bytes(body[:6], "little"))
            if table is not None and kind not in _ROWS:
                self.note(table, "partial_json" if kind == _PARTIAL else "compressed")
            return table is not None and kind in _ROWS
        if kind == _PAYLOAD:
            self.anywhere[self.order] = "compressed"
        return kind in _DECODED

    def note(self, table: TableName, limit: str) -> None:
        """The images of the newest event cannot be compared."""
        self.opaque.setdefault(table, {})[self.order] = limit

    def rotated(self, file: str) -> None:
        """The next events are of this file."""
        if file != self.file or not self.names:
            self.tables.clear()
        self.file = file
        self.names[file_number(file)] = file

    def _mapped(self, body: bytes) -> bool:
        number = int.from_bytes(body[:6], "little")
        length = body[8]
        database, rest = body[9 : 9 + length].decode(), body[10 + length :]
        table, types = rest[1 : 1 + rest[0]].decode(), rest[2 + rest[0] :]
        name = (database, table)
        if name not in self.wanted:
            self.tables.pop(number, None)
            return False
        count, at = (types[0], 1) if types[0] < 251 else (int.from_bytes(types[1:3], "little"), 3)
        unknown = {_UNKNOWN_TYPES[code] for code in types[at : at + count] if code in _UNKNOWN_TYPES}
        if unknown:
            self.undecoded[name] = f"it has columns of type {' and '.join(sorted(unknown))}"
            self.tables.pop(number, None)
            return False
        self.tables[number] = name
        return True


class _Dump:
    """The connection that the package reads the dump from."""

    def __init__(self, connection: Connection, frames: Frames) -> None:
        self.__dict__.update(connection=connection, frames=frames)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.connection, name, value)

    def _read_packet(self) -> Any:
        try:
            while True:
                packet = self.connection._read_packet()  # noqa: SLF001 - as the package does
                if not packet.is_ok_packet() or self.frames.admit(packet.get_all_data()):
                    return packet
        except pymysql.Error as error:  # the package would reconnect in the middle of a transaction
            raise explain(error, f"Reading the binlog {self.frames.file}") from error


def without_cycle(event: Any) -> Any:
    """An event of the package that is freed as soon as nothing uses it.

    It and its packet refer to each other, so only the garbage collector would free them. That counts objects and not
    bytes: with 3 000 updates of rows of a megabyte, 250 MiB of unused events stayed in memory.
    """
    event.packet.event = None
    return event


class LoggedRows:
    """The rows of some tables between two positions, both between transactions.

    A dump cannot begin after 4 GiB of a file: it then begins with the file, and rows before `start` are yielded too.

    tables: with their columns, which name those of a log without names (`binlog_row_metadata=MINIMAL`). `frames`: what
    cannot be decoded, as far as the log was read. `unsure`: tables whose rows cannot be trusted, with the reason.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        first_server_id: int,
        tables: Mapping[TableName, Table],
        start: Position,
        end: Position,
    ) -> None:
        self._endpoint = endpoint
        self._first = first_server_id
        self._tables = tables
        self._start = start
        self._end = end
        self.frames = Frames(set(tables), {file_number(start.file): start.file}, start.file)
        self._from = start.offset if start.offset <= _LARGEST_OFFSET else FIRST_OFFSET
        self.frames.order = pack(file_number(start.file), self._from)
        self.unsure: dict[TableName, str] = {}
        self._open: _OpenTransaction | None = None
        self._count = 0
        self._prepared: dict[tuple[str, str, int], list[EventRows]] = {}

    def __iter__(self) -> Iterator[list[EventRows]]:
        """Yield the rows of each transaction that counts; of a large one, in parts.

        Positions only grow from part to part.
        """
        end = pack(*self._end.order)
        with closing(self._reader()) as reader:
            while self.frames.order < end:
                binlog_event = self._next(reader)
                if binlog_event is None:
                    break
                if self.frames.order <= end:
                    yield from self._parts(binlog_event)
        if self.frames.order < end:
            raise TransientError(
                f"The server sent the binlog only up to {self.frames.file}, not to {self._end}.",
                detail="The audit is incomplete.",
                hint="Run it again.",
            )

    def _reader(self) -> BinLogStreamReader:
        def connect(**settings: Any) -> Any:
            connection = open_connection(self._endpoint)
            if "cursorclass" in settings:  # the package's second connection, for variables
                connection.cursorclass = settings["cursorclass"]
                return connection
            return _Dump(connection, self.frames)

        return BinLogStreamReader(
            connection_settings={},
            server_id=server_id(self._first),
            slave_uuid=str(uuid.uuid4()),
            resume_stream=True,
            log_file=self._start.file,
            log_pos=self._from,
            only_events=_EVENTS,
            filter_non_implemented_events=False,
            pymysql_wrapper=connect,
            enable_logging=False,
        )

    def _next(self, reader: BinLogStreamReader) -> Any:
        while True:
            try:
                event = reader.fetchone()
            except TidemarkError:
                raise
            except Exception as error:  # whatever the package raises  # noqa: BLE001
                self._failed(error)
            else:
                return None if event is None else without_cycle(event)

    def _failed(self, error: Exception) -> None:
        """The package could not read an event. Raises BinlogDamagedError if rows may be missed because of it."""
        if self.frames.kind == _TABLE_MAP:
            name = self.frames.tables.popitem()[1]
            self.frames.undecoded[name] = f"the package fails in its table map: {error!r}"
            return
        raise BinlogDamagedError(
            f"mysql-replication cannot read the event of type {self.frames.kind} that ends before {self.frames.file}:"
            f"{self.frames.order & 0xFFFFFFFF}: {error!r}.",
            detail="The audit ended there. Nothing is known to be wrong.",
            hint="Audit the binlog before and after it: --to and --from.",
        )

    def _parts(self, binlog_event: Any) -> Iterator[list[EventRows]]:
        if isinstance(binlog_event, row_event.RowsEvent):
            yield from self._rows(binlog_event)
        elif isinstance(binlog_event, row_event.TableMapEvent):
            self._describe(binlog_event)
        elif isinstance(binlog_event, event.RotateEvent):
            self.frames.rotated(binlog_event.next_binlog)
            self.frames.order = max(
                self.frames.order, pack(file_number(binlog_event.next_binlog), binlog_event.position)
            )
            self._open = self._open if binlog_event.timestamp == 0 and self._open else None  # torn at the end of a file
        elif isinstance(binlog_event, event.GtidEvent | event.MariadbGtidEvent):
            self._begin(binlog_event.timestamp, binlog_event.gtid)
        elif isinstance(binlog_event, event.NotImplementedEvent):
            self._undecoded(binlog_event)
        elif isinstance(binlog_event, event.XAPrepareEvent) and not binlog_event.one_phase:
            self._prepare(binlog_event)
        elif isinstance(binlog_event, event.XidEvent | event.XAPrepareEvent):
            yield from self._commit()
        elif isinstance(binlog_event, event.QueryEvent):
            yield from self._query(binlog_event.query)

    def _undecoded(self, binlog_event: Any) -> None:
        if binlog_event.event_type == _COMPRESSED_QUERY:
            for rows in self._open.rows if self._open else ():
                self.frames.opaque.setdefault(rows.table, {})[rows.order] = "compressed"
            if self._open:
                self._open.rows.clear()
            return
        self._begin(binlog_event.timestamp, UNSURE if binlog_event.event_type == _TAGGED else None)

    def _begin(self, ts: int, tx: str | Unsure | None) -> None:
        self._count += 1
        self._open = _OpenTransaction(ts, tx, self._count)

    def _rows(self, binlog_event: Any) -> Iterator[list[EventRows]]:
        table = (binlog_event.schema, binlog_event.table)
        kinds = {row_event.WriteRowsEvent: ("+I",), row_event.DeleteRowsEvent: ("-D",)}.get(
            type(binlog_event), ("-U", "+U")
        )
        try:
            rows = binlog_event.rows
        except Exception:  # noqa: BLE001 - whatever the package raises
            self.frames.note(table, "failed_event")
            return
        if self._open is None:
            self._begin(binlog_event.timestamp, None)
        assert self._open is not None
        transaction = self._open
        size = len(rows) * len(binlog_event.columns) * len(kinds) * _VALUE_BYTES + binlog_event.event_size
        transaction.rows.append(
            EventRows(table, self.frames.order, kinds, rows, transaction.ts, transaction.tx, transaction.number, size)
        )
        transaction.size += size
        if transaction.size > MOST_BYTES and not transaction.held_back:
            transaction.passed |= {part.table for part in transaction.rows}
            part = transaction.rows
            transaction.rows = []
            transaction.size = 0
            yield part

    def _commit(self) -> Iterator[list[EventRows]]:
        transaction, self._open = self._open, None
        if transaction is not None and transaction.rows:
            yield transaction.rows

    def _undo(self, transaction: _OpenTransaction) -> None:
        """Rows do not count. If some were passed on already, the transaction's tables are not compared."""
        if transaction.passed:
            reason = f"a transaction of more than {MOST_BYTES >> 20} MiB was rolled back in part or as a whole"
            self.unsure.update(dict.fromkeys({*transaction.passed, *(rows.table for rows in transaction.rows)}, reason))

    def _query(self, query: str) -> Iterator[list[EventRows]]:
        text, transaction = query.strip().rstrip(";"), self._open
        if match := _XA.match(text):
            yield from self._decided(match, transaction)
        elif transaction is None:
            return
        elif text.upper().startswith("XA START"):
            transaction.held_back = True
        elif text.upper() == "COMMIT":
            yield from self._commit()
        elif match := _ROLLBACK_TO.fullmatch(text):
            self._undo(transaction)
            del transaction.rows[transaction.savepoints.get(match[1], 0) :]
        elif text.upper().startswith("ROLLBACK"):
            self._undo(transaction)
            self._open = None
        elif match := _SAVEPOINT.fullmatch(text):
            transaction.savepoints[match[1]] = len(transaction.rows)

    def _prepare(self, binlog_event: Any) -> None:
        transaction, self._open = self._open, None
        if transaction is not None:
            self._undo(transaction)
            xid = (binlog_event.xid_gtrid.hex(), binlog_event.xid_bqual.hex(), binlog_event.xid_format_id)
            self._prepared[xid] = transaction.rows

    def _decided(self, match: re.Match[str], transaction: _OpenTransaction | None) -> Iterator[list[EventRows]]:
        prepared = self._prepared.pop((match[2].lower(), match[3].lower(), int(match[4])), None)
        self._open = None
        if match[1].upper() == "ROLLBACK" or transaction is None:
            return
        if prepared is None:
            self.frames.anywhere[self.frames.order] = "prepared"
        else:
            order, number = self.frames.order, transaction.number
            yield [
                replace(rows, order=order, ts=transaction.ts, tx=transaction.tx, transaction=number)
                for rows in prepared
            ]

    def _describe(self, binlog_event: Any) -> None:
        """Correct what the package believes of a table's columns: it shall leave texts as bytes, and know all names."""
        name = (binlog_event.schema, binlog_event.table)
        table = self._tables[name]
        if binlog_event.columns[0].name is None:
            if len(binlog_event.columns) != len(table.columns):
                self.frames.undecoded[name] = "the binlog has no names for its columns, and another number of them"
                self.frames.tables.pop(binlog_event.table_id, None)
                return
            for column, described in zip(binlog_event.columns, table.columns, strict=True):
                column.name = described.name
                column.unsigned = described.unsigned
                column.enum_values = ["", *described.labels]
                column.set_values = list(described.labels)
        kinds = {column.name: column.type for column in table.columns}
        for column in binlog_event.columns:
            if kinds.get(column.name) not in LABELS:
                column.character_set_name = "bytes"  # an encoding that Python does not know


class ServerTexts:
    """Asks the server for texts of character sets. Keeps the newest answers."""

    _MOST, _BATCH = 100_000, 100

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cache: dict[str, dict[bytes, str | Unsure]] = {}

    def texts(self, charset: str, values: Sequence[bytes]) -> Mapping[bytes, str | Unsure]:
        """The text of each of these bytes; UNSURE where the server refuses."""
        cache = self._cache.setdefault(charset, {})
        if len(cache) > self._MOST:
            cache.clear()
        missing = [value for value in values if value not in cache]
        for n in range(0, len(missing), self._BATCH):
            part = missing[n : n + self._BATCH]
            texts = self._server_texts(charset, part)
            if texts is None:
                texts = [self._server_text(charset, value) for value in part]
            cache.update(zip(part, texts, strict=True))
        return cache

    def _server_text(self, charset: str, value: bytes) -> str | Unsure:
        texts = self._server_texts(charset, [value])
        return UNSURE if texts is None else texts[0]

    def _server_texts(self, charset: str, values: Sequence[bytes]) -> list[str | Unsure] | None:
        if charset == "inet6":
            expressions = [f"INET6_NTOA(x'{value.hex()}')" for value in values]
        else:
            expressions = [f"CONVERT(_{charset} x'{value.hex()}' USING utf8mb4)" for value in values]
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(expressions)}")
                row = cursor.fetchone() or ()
        except pymysql.Error as error:
            if error.args[0] in _INVALID:
                return None
            raise explain(error, "Converting texts") from error
        texts = [value.decode() if isinstance(value, bytes) else value for value in row if value is not None]
        return texts if len(texts) == len(values) else None
