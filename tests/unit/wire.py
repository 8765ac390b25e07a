"""MySQL's formats, encoded value by value from the manuals: what the columnar decoders are tested against.

`Binlog` makes the packets of a replication stream; `row_payload` a row of the binary protocol. Nothing here is taken from
the engine but `Column` and `Table`.
"""

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.decode.schema import Column, Table

_WIDTHS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRAILER = b"\xff" * 64
"""Hostile bytes behind the filled part of a buffer."""


def lenenc(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    return b"\xfd" + number.to_bytes(3, "little") if number < 1 << 24 else b"\xfe" + number.to_bytes(8, "little")


def packets(payloads: Iterable[bytes], sequence: int = 0) -> bytes:
    """Payloads with their packet headers."""
    return b"".join(len(p).to_bytes(3, "little") + bytes([(sequence + n) % 256]) + p for n, p in enumerate(payloads))


def laid_out(payloads: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A buffer with the packets, and where each payload starts and ends."""
    buffer = np.frombuffer(packets(payloads) + TRAILER, np.uint8).copy()
    size = np.array([len(p) for p in payloads], np.int64)
    end = np.cumsum(size + 4)
    return buffer, end - size, end


def null_bitmap(values: Sequence[Any], skipped: int = 0) -> bytes:
    """One bit a value, set for None."""
    bits = sum(1 << n + skipped for n, value in enumerate(values) if value is None)
    return bits.to_bytes((len(values) + skipped + 7) // 8, "little")


def latin1(text: str) -> bytes:
    """MySQL's latin1: Windows-1252, and five bytes that it leaves undefined."""
    return b"".join(bytes([ord(c)]) if c in "\x81\x8d\x8f\x90\x9d" else c.encode("cp1252") for c in text)


def row_payload(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """A row of the binary protocol."""
    cells = (row_value(c, v) for c, v in zip(columns, values, strict=True) if v is not None)
    return b"\0" + null_bitmap(values, skipped=2) + b"".join(cells)


def row_value(column: Column, value: Any) -> bytes:  # noqa: PLR0911 - a case a type
    """A value in the binary protocol."""
    if column.type in _WIDTHS:
        width = 4 if column.type == "mediumint" else _WIDTHS[column.type]
        return int(value).to_bytes(width, "little", signed=not column.unsigned)
    if column.type in ("float", "double"):
        return struct.pack("<f" if column.type == "float" else "<d", value)
    if column.type == "date":
        return struct.pack("<BHBB", 4, value.year, value.month, value.day)
    if column.type in ("datetime", "timestamp"):
        parts = struct.pack("<HBBBBB", value.year, value.month, value.day, value.hour, value.minute, value.second)
        if value.microsecond:
            return b"\x0b" + parts + struct.pack("<I", value.microsecond)
        return b"\x07" + parts if any(parts[4:]) else b"\x04" + parts[:4]
    if column.type == "decimal":
        text = f"{Decimal(value):.{column.scale}f}".encode()
        return lenenc(len(text)) + text
    content = value if isinstance(value, bytes) else value.encode()
    return lenenc(len(content)) + content


def image(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """A row image."""
    cells = (image_value(c, v) for c, v in zip(columns, values, strict=True) if v is not None)
    return null_bitmap(values) + b"".join(cells)


def image_value(column: Column, value: Any) -> bytes:  # noqa: PLR0911 - a case a type
    """A value in a row image."""
    if column.type in _WIDTHS:
        return int(value).to_bytes(_WIDTHS[column.type], "little", signed=not column.unsigned)
    if column.type in ("float", "double"):
        return row_value(column, value)
    if column.type == "date":
        return (value.year << 9 | value.month << 5 | value.day).to_bytes(3, "little")
    if column.type == "datetime":
        day = (value.year * 13 + value.month) << 5 | value.day
        packed = day << 17 | value.hour << 12 | value.minute << 6 | value.second
        return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(value, column.fraction)
    if column.type == "timestamp":
        return int((value - _EPOCH).total_seconds()).to_bytes(4, "big") + _fraction(value, column.fraction)
    if column.type == "decimal":
        return _packed_decimal(Decimal(value), column.precision, column.scale)
    content = value if isinstance(value, bytes) else latin1(value) if column.charset == "latin1" else value.encode()
    if column.type == "binary":
        content = content.rstrip(b"\0")
    return len(content).to_bytes(_length_bytes(column), "little") + content


def _fraction(value: datetime, digits: int) -> bytes:
    size = (digits + 1) // 2
    return (value.microsecond // 100 ** (3 - size)).to_bytes(size, "big")


def _packed_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    """decimal2bin: groups of nine digits, the first one and the last one shorter; all bits inverted below zero."""
    digits = f"{value.copy_abs():.{scale}f}".replace(".", "").zfill(precision)[-precision:]
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    head = len(whole) % 9
    groups = [whole[:head], *(whole[n : n + 9] for n in range(head, len(whole), 9))]
    groups += [fraction[n : n + 9] for n in range(0, len(fraction), 9)]
    out = b"".join(int(g).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(g)], "big") for g in groups if g)
    if value < 0:
        out = bytes(b ^ 0xFF for b in out)
    return bytes([out[0] ^ 0x80]) + out[1:]


def _length_bytes(column: Column) -> int:
    for kind in ("text", "blob"):
        if column.type.endswith(kind):
            return _BLOBS[column.type.removesuffix(kind)]
    return 2 if column.length > 255 else 1


def announced(column: Column) -> tuple[int, bytes]:  # noqa: PLR0911 - a case a type
    """Type code and metadata of a column in a table map."""
    if column.type in _WIDTHS:
        return {"tinyint": 1, "smallint": 2, "mediumint": 9, "int": 3, "bigint": 8}[column.type], b""
    if column.type in ("float", "double"):
        return (4, b"\x04") if column.type == "float" else (5, b"\x08")
    if column.type in ("datetime", "timestamp"):
        return (18 if column.type == "datetime" else 17), bytes([column.fraction])
    if column.type == "date":
        return 10, b""
    if column.type == "decimal":
        return 246, bytes([column.precision, column.scale])
    if column.type in ("char", "binary"):
        return 254, bytes([0xFE ^ (column.length & 0x300) >> 4, column.length & 0xFF])
    if column.type in ("varchar", "varbinary"):
        return 15, column.length.to_bytes(2, "little")
    return 252, bytes([_length_bytes(column)])


def protocol_code(column: Column) -> int:
    """The type code that a result set announces."""
    codes = {"datetime": 12, "timestamp": 7, "varchar": 253, "varbinary": 253}
    return codes.get(column.type, announced(column)[0])


def table_map(table: Table, number: int, *, names: bool = True) -> bytes:
    """The body of a TABLE_MAP event; with names, as under binlog_row_metadata=FULL."""
    described = [announced(column) for column in table.columns]
    metadata = b"".join(m for _, m in described)
    count = len(described)
    out = number.to_bytes(6, "little") + b"\1\0"
    for name in (table.database, table.name):
        out += bytes([len(name.encode())]) + name.encode() + b"\0"
    out += lenenc(count) + bytes(code for code, _ in described) + lenenc(len(metadata)) + metadata
    out += b"\xff" * ((count + 7) // 8)
    if names:
        listed = b"".join(lenenc(len(c.name.encode())) + c.name.encode() for c in table.columns)
        out += b"\x01" + lenenc(1) + b"\0" + b"\x04" + lenenc(len(listed)) + listed
    return out


def rows_body(table: Table, number: int, kind: str, rows: Sequence[Sequence[Any]], *, version: int) -> bytes:
    """The body of a row event; for an update, `rows` are pairs of images one after the other."""
    count = len(table.columns)
    present = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    out = number.to_bytes(6, "little") + b"\1\0" + (b"\2\0" if version == 2 else b"")
    out += lenenc(count) + present * (2 if kind == "update" else 1)
    return out + b"".join(image(table.columns, row) for row in rows)


ROW_KINDS = {
    ("insert", 1): 23, ("update", 1): 24, ("delete", 1): 25, ("insert", 2): 30, ("update", 2): 31, ("delete", 2): 32,
}  # fmt: skip


class Binlog:
    """One binlog file as the packets of a dump of it; `position` behind its last event."""

    def __init__(self, file: str = "bin.000001", *, checksum: bool = True) -> None:
        self.file, self.position, self._checksum = file, 4, checksum
        self.payloads: list[bytes] = []
        self._artificial(4, (4).to_bytes(8, "little") + file.encode())
        self.add(15, b"\4\0" + b"9.7.4".ljust(50, b"\0") + b"\0\0\0\0\x13" + bytes(40) + bytes([checksum]), summed=True)

    def _artificial(self, kind: int, body: bytes) -> None:
        event = struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body) + 4 * self._checksum, 0, 0x20) + body
        self.payloads.append(b"\0" + event + (zlib.crc32(event).to_bytes(4, "little") if self._checksum else b""))

    def add(self, kind: int, body: bytes, *, at: int = 1_700_000_000, flags: int = 0, summed: bool = False) -> int:
        """Append an event; returns the position behind it."""
        size = 19 + len(body) + (4 if self._checksum or summed else 0)
        self.position += size
        event = struct.pack("<IBIIIH", at, kind, 1, size, self.position & 0xFFFFFFFF, flags) + body
        if self._checksum or summed:
            event += zlib.crc32(event).to_bytes(4, "little")
        self.payloads.append(b"\0" + event)
        return self.position

    def gtid(self, server: uuid.UUID, number: int, at: int = 1_700_000_000) -> None:
        """Begin a transaction as MySQL does; number 0 is one without GTID."""
        self.add(33 if number else 34, b"\1" + server.bytes + number.to_bytes(8, "little") + bytes(17), at=at)

    def maria_gtid(self, domain: int, number: int) -> None:
        """Begin a transaction as MariaDB does."""
        self.add(162, number.to_bytes(8, "little") + domain.to_bytes(4, "little") + bytes(7))

    def query(self, statement: str | bytes, database: str = "shop") -> int:
        """A QUERY event."""
        text = statement if isinstance(statement, bytes) else statement.encode()
        head = struct.pack("<IIBHH", 7, 0, len(database), 0, 3) + b"\0\0\0"
        return self.add(2, head + database.encode() + b"\0" + text)

    def rows(self, table: Table, number: int, kind: str, rows: Sequence[Sequence[Any]], *, version: int = 2) -> int:
        """A row event."""
        return self.add(ROW_KINDS[kind, version], rows_body(table, number, kind, rows, version=version))

    def commit(self) -> int:
        """The XID event that ends a transaction."""
        return self.add(16, bytes(8))

    def rotate(self, following: str) -> int:
        """The file's end."""
        return self.add(4, (4).to_bytes(8, "little") + following.encode())
