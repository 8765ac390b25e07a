"""Transactions in binlog files, written for a test, and what a range of them yields."""

import struct
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from engine.capture.binlog.binlog_range import BinlogRange
from engine.decode.schema import KINDS, Column, Table
from engine.decode.stream import EventBatch, StreamPosition
from engine.source.positions import Position, file_number
from tests.unit.support.compressed import payload
from tests.unit.support.wire import Binlog, laid_out, table_map

SERVER = uuid.UUID("0195a8b2-0000-7000-8000-00000000002a")
ITEMS = Table("shop", "items", (Column("id", "bigint"),), ("id",))
OTHER = Table("shop", "other", (Column("id", "bigint"),), ("id",))
STONE = Table("shop", "stone", (Column("id", "bigint"),), ("id",), transactional=False)
NUMBERS = {"items": 8, "other": 9, "stone": 10}


def end_of(packet: bytes) -> int:
    """The position behind an event, 0 for an artificial one."""
    return int.from_bytes(packet[14:18], "little")


def bare(packet: bytes) -> bytes:
    """An event as a compressed transaction contains it: without checksum."""
    return packet[1:10] + (len(packet) - 5).to_bytes(4, "little") + packet[14:-4]


class Files:
    """Binlog files that can be read several times. reads, parts: how often that was done, and what was read."""

    def __init__(self, *logs: Binlog) -> None:
        self.logs = {log.file: log for log in logs}
        self.reads = 0
        self.parts: list[tuple[Position, Position]] = []

    def files(self) -> Sequence[str]:
        return list(self.logs)

    def packets(self, start: Position, end: Position) -> Iterator[bytes]:
        for name, log in self.logs.items():
            if start.order[0] <= file_number(name) <= end.order[0]:
                for packet in log.payloads:
                    behind = name != start.file or end_of(packet) > start.offset
                    if (
                        not end_of(packet)
                        or packet[5] == 15
                        or (behind and (name, end_of(packet)) <= (end.file, end.offset))
                    ):
                        yield packet

    def read_batches(self, start: Position, end: Position) -> Iterator[EventBatch]:
        self.reads += 1
        self.parts.append((start, end))
        yield from StreamPosition(start.file, start.offset).runs(*laid_out(list(self.packets(start, end))))


def read_log(
    files: Files, start: Position, end: Position, cuts: list[int] | None = None, **options: Any
) -> list[list[Any]]:
    """The changes of a binlog range: table, key and kind; on request also position and transaction number."""
    tables = {("shop", t.name): t for t in (ITEMS, STONE)}
    binlog_range = BinlogRange(tables, start, end, mariadb=False, log=files, places=options.get("known"))
    packets, position, found = list(files.packets(start, end)), StreamPosition(start.file, start.offset), []
    for a, b in pairwise(sorted({0, len(packets), *(c % (len(packets) + 1) for c in cuts or [])})):
        for run in position.runs(*laid_out(packets[a:b])):
            for table, file, changes in binlog_range.feed(run):
                for key, kind, offset, number in zip(
                    changes.rows["id"].to_pylist(),
                    *(changes.fact(n).tolist() for n in ("kind", "offset", "tx_n")),
                    strict=True,
                ):
                    place = [f"{file}:{offset}", number] if options.get("places") else []
                    found.append([table.name, key, KINDS[kind], *place])
    assert binlog_range.is_done
    assert binlog_range.places is not None
    options.get("read", []).append(binlog_range.places)
    assert set(binlog_range.stop_errors) == options.get("stopped", set())
    return found


class Writer:
    """Writes transactions to files. `places`: the positions between them.

    `counted`: for each binlog range between two positions, the rows that count.
    """

    def __init__(self) -> None:
        self.logs = [Binlog("bin.000001")]
        self.number, self.key = 0, 0
        self.places = [Position(self.log.file, 4)]
        self.counted: list[list[int]] = []

    @property
    def log(self) -> Binlog:
        return self.logs[-1]

    def begin(self, statement: str = "BEGIN") -> None:
        self.number += 1
        self.log.gtid(SERVER, self.number)
        self.log.query(statement)

    def rows(self, table: Table = ITEMS, count: int = 1) -> list[int]:
        keys = list(range(self.key, self.key + count))
        self.key += count
        self.log.add(19, table_map(table, NUMBERS[table.name]))
        self.log.rows(table, NUMBERS[table.name], "insert", [[key] for key in keys])
        return keys if table is not OTHER else []

    def end(self, counted: list[int]) -> None:
        self.places.append(Position(self.log.file, self.log.position))
        self.counted.append(counted)

    def prepare(self, xid: str, *, one_phase: bool = False) -> None:
        self.log.query(f"XA END X'{xid}',X'',1")
        data = bytes.fromhex(xid)
        self.log.add(38, struct.pack("<BIII", one_phase, 1, len(data), 0) + data)

    def rotate(self) -> None:
        name = f"bin.{len(self.logs) + 1:06d}"
        self.log.rotate(name)
        self.logs.append(Binlog(name))

    def fold(self) -> None:
        """Put the last transaction's events behind the GTID into a compressed payload."""
        last = max(n for n, packet in enumerate(self.log.payloads) if packet[5] == 33)
        events = [bare(packet) for packet in self.log.payloads[last + 1 :]]
        del self.log.payloads[last + 1 :]
        self.log.position = end_of(self.log.payloads[last])
        self.log.add(40, payload(b"".join(events)))


def prepared(writer: Writer, count: int, table: Table = ITEMS) -> list[list[int]]:
    """XA transactions that are prepared and not decided: the rows of each."""
    rows = []
    for number in range(count):
        writer.begin(f"XA START X'{number:04x}',X'',1")
        rows.append(writer.rows(table))
        writer.prepare(f"{number:04x}")
        writer.end([])
    return rows


def commit(writer: Writer, count: int) -> None:
    """Commit what `prepared` prepared."""
    for number in range(count):
        writer.begin(f"XA COMMIT X'{number:04x}',X'',1")
        writer.end([])
