"""How often tables change: counts the row images of the binlog's last minutes, by table. Decodes no row.

The window is at most `WINDOW_S`. It begins where a read can begin: at the head of the oldest file such that it and the
newer ones have at most `MOST_BYTES`. If the newest file alone is larger, or only just begun, the window is the next
`LEAST_S` seconds from the current end: no other place inside a file is known to be between two transactions.

Rows count if their statement began within the window, by the source's clock. A measurement is never an obstacle:
whatever fails, the answer says why the rates are unknown.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from engine.base import clock
from engine.base.errors import TidemarkError
from engine.decode.binlog_events import (
    DELETES,
    ROWS,
    ROWS_COMPRESSED,
    UPDATES,
    Kind,
    TableMap,
    among,
    read_table_map,
)
from engine.decode.framing import Offsets, words
from engine.decode.images import check_table_map, count_images
from engine.decode.schema import Table
from engine.decode.stream import EventBatch
from engine.decode.unfold import unfolded
from engine.source.connect import Endpoint, describe, open_connection, query
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, current
from engine.source.replication import read_runs

WINDOW_S = 300.0
MOST_BYTES = 64 << 20
MOST_S = 10.0
"""The longest time that a measurement takes, connecting not included."""
LEAST_S = 5.0
"""Shorter windows are extended, because events have timestamps in whole seconds."""
_TABLE_ID = np.uint64((1 << 48) - 1)
_NOW = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) AS DOUBLE) AS s"


@dataclass(frozen=True)
class ChangeRate:
    """A table's changes per second, and the bytes per second of their row images, not compressed."""

    inserts_per_s: float = 0.0
    updates_per_s: float = 0.0
    deletes_per_s: float = 0.0
    bytes_per_s: float = 0.0

    @property
    def changes_per_s(self) -> float:
        return self.inserts_per_s + self.updates_per_s + self.deletes_per_s


@dataclass(frozen=True)
class ChangeRates:
    """The rates of some tables."""

    window_s: float = 0.0
    """The seconds of binlog that were counted."""
    rates: Mapping[str, ChangeRate] = field(default_factory=dict)
    """By full name; a table without changes has zeros."""
    unknown: str = ""
    """Why no rate is known; empty otherwise."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Why single tables have no rate, by full name."""

    def why_unknown(self, table: str) -> str:
        """Why a table has no rate."""
        return self.unknown or self.faults.get(table) or "it was not measured"


@dataclass
class _ChangeCount:
    """The row images of one table."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    image_bytes: int = 0

    def per_s(self, window_s: float) -> ChangeRate:
        return ChangeRate(
            self.inserts / window_s, self.updates / window_s, self.deletes / window_s, self.image_bytes / window_s
        )


def recent_changes(endpoint: Endpoint, first_server_id: int, tables: Sequence[Table]) -> ChangeRates:
    """Measure the change rates of some tables; takes `MOST_S` at most. Never raises one of our errors."""
    try:
        return _measure(endpoint, first_server_id, tables)
    except TidemarkError as error:
        return ChangeRates(unknown=error.message)


def _measure(endpoint: Endpoint, first_server_id: int, tables: Sequence[Table]) -> ChangeRates:
    with closing(open_connection(endpoint)) as connection:
        deadline_s = clock.monotonic_s() + MOST_S
        server = describe(connection)
        end = current(connection, server)
        start = first_position(binlog_files(connection), end)
        now_s = float(query(connection, _NOW)[0]["s"])
    reader = _RateReader(endpoint, first_server_id, deadline_s)
    counter = ChangeCounter(tables, now_s - WINDOW_S, mariadb=server.flavor == "mariadb")
    reader.read(start, counter)
    began_s = max(now_s - WINDOW_S, counter.born_s if start.offset == FIRST_OFFSET else now_s)
    if not reader.cut and now_s - began_s < LEAST_S:
        pause_s = LEAST_S - (now_s - began_s)
        clock.sleep(pause_s)
        now_s += pause_s
        reader.read(reader.position, counter)
    window_s = (counter.last_s if reader.cut else now_s) - began_s
    if window_s < 1:
        return ChangeRates(unknown=f"the binlog's last minutes could not be read within {MOST_S:.0f} s")
    rates = {name: count.per_s(window_s) for name, count in counter.counts.items() if name not in counter.faults}
    return ChangeRates(window_s, rates, faults=counter.faults)


def first_position(files: Mapping[str, int], end: Position) -> Position:
    """Where to begin: the head of the oldest file after which no more than `MOST_BYTES` follow.

    The end if there is none.

    files: as `binlog_files`.
    """
    start, size = end, 0
    for name, file_bytes in reversed([*files.items()]):
        size += file_bytes
        if size > MOST_BYTES:
            break
        start = Position(name, FIRST_OFFSET)
    return start


@dataclass
class _RateReader:
    """Reads the binlog to its current end, within the limits of bytes and time."""

    endpoint: Endpoint
    first_server_id: int
    deadline_s: float
    position: Position = field(init=False)
    """The position after the last event."""
    cut: bool = False
    """Whether a limit was reached before the end."""
    _bytes: int = 0

    def read(self, start: Position, counter: "ChangeCounter") -> None:
        """Count from a position to the current end. Raises as `read_runs`."""
        self.position = start
        connection = open_connection(self.endpoint)
        try:
            silence_s = max(min(self.endpoint.silence_s, self.deadline_s - clock.monotonic_s()), 0.1)
            for run in read_runs(connection, start.file, start.offset, self.first_server_id, silence_s):
                if not counter.add(run, self.deadline_s):
                    self.cut = True
                    return
                self.position = Position(run.file, int(run.offset[-1]))
                self._bytes += int(run.headers.size.sum())
                # One block more is no harm: the end moves on while it is read.
                if self._bytes > MOST_BYTES + (16 << 20):
                    self.cut = True
                    return
        finally:
            connection._force_close()  # noqa: SLF001 - the server may still be sending; a clean close would wait for it


class ChangeCounter:
    """Counts the row images of some tables, in events from `since_s` (seconds since 1970) on."""

    def __init__(self, tables: Sequence[Table], since_s: float, *, mariadb: bool) -> None:
        self.counts = {table.full_name: _ChangeCount() for table in tables}
        self.faults: dict[str, str] = {}
        """Why a table's images could not be counted, by full name."""
        self.born_s = 0
        self.last_s = 0
        """The time of the first FORMAT_DESCRIPTION event, and of the last event; 0 before it."""
        self._tables = {(table.database, table.name): table for table in tables}
        self._since_s = since_s
        self._mariadb = mariadb
        self._maps: dict[int, tuple[Table, TableMap] | None] = {}

    def add(self, run: EventBatch, deadline_s: float = float("inf")) -> bool:
        """Count a run. Returns False if the deadline (`clock.monotonic_s`) has passed before its end."""
        kind, times = run.headers.kind, run.headers.timestamp
        if kind[0] == Kind.FORMAT_DESCRIPTION:
            self._maps.clear()  # a restarted server numbers its tables from the beginning
            self.born_s = self.born_s or int(times[0])
        recent = times >= self._since_s
        if recent.any():
            packed = np.flatnonzero(recent & (kind == Kind.TRANSACTION_PAYLOAD))
            for plain in unfolded(run, packed):
                self._count(plain.run)
                if clock.monotonic_s() > deadline_s:
                    return False
        self.last_s = max(self.last_s, int(times.max()))
        return clock.monotonic_s() <= deadline_s

    def _count(self, run: EventBatch) -> None:
        kind = run.headers.kind
        self._learn_tables(run)
        rows = np.flatnonzero(among(kind, ROWS) & (run.headers.timestamp >= self._since_s))
        ids = words(run.buffer)[run.headers.body[rows]] & _TABLE_ID
        wanted = np.isin(ids, [number for number, mapped in self._maps.items() if mapped])
        rows, ids = rows[wanted], ids[wanted]
        packed = rows[among(kind[rows], tuple(ROWS_COMPRESSED))]
        if len(packed):
            for plain in unfolded(run, packed):
                self._count(plain.run)
            return
        for number in np.unique(ids).tolist():
            if (mapped := self._maps.get(number)) is not None:
                self._count_table(run, *mapped, rows[ids == number])

    def _learn_tables(self, run: EventBatch) -> None:
        events = np.flatnonzero(run.headers.kind == Kind.TABLE_MAP)
        ids, first = np.unique(words(run.buffer)[run.headers.body[events]] & _TABLE_ID, return_index=True)
        for number, event in zip(ids.tolist(), events[first].tolist(), strict=True):
            if number not in self._maps:
                mapped = read_table_map(run.body(event), mariadb=self._mariadb)
                table = self._tables.get((mapped.database, mapped.table))
                self._maps[number] = (table, mapped) if table else None

    def _count_table(self, run: EventBatch, table: Table, mapped: TableMap, events: Offsets) -> None:
        headers, count = run.headers, self.counts[table.full_name]
        try:
            check_table_map(table, mapped)
            images = count_images(run.buffer, headers, events, table, mapped)
        except TidemarkError as error:
            self.faults.setdefault(table.full_name, error.message)
            return
        updates, deletes = among(headers.kind[events], UPDATES), among(headers.kind[events], DELETES)
        count.updates += int(images[updates].sum()) // 2
        count.deletes += int(images[deletes].sum())
        count.inserts += int(images[~updates & ~deletes].sum())
        count.image_bytes += int((headers.end - headers.body)[events].sum())
