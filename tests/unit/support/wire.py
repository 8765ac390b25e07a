"""MySQL's formats, encoded value by value from the manuals: what the columnar decoders are tested against.

`Binlog` makes the packets of a replication stream; `row_payload` a row of the binary protocol. Nothing here is taken
from the engine but `Column` and `Table`.
"""

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.decode.schema import Column, Table
from tests.unit.support.cells import FIXED, WIDTHS, announced, image_value, lenenc, row_value

TRAILER = b"\xff" * 64
"""Hostile bytes behind the filled part of a buffer."""


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
    """One bit per value, set for None."""
    bits = sum(1 << n + skipped for n, value in enumerate(values) if value is None)
    return bits.to_bytes((len(values) + skipped + 7) // 8, "little")


def row_payload(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """A row of the binary protocol."""
    cells = (row_value(c, v) for c, v in zip(columns, values, strict=True) if v is not None)
    return b"\0" + null_bitmap(values, skipped=2) + b"".join(cells)


def image(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """A row image."""
    cells = (image_value(c, v) for c, v in zip(columns, values, strict=True) if v is not None)
    return null_bitmap(values) + b"".join(cells)


def table_map(table: Table, number: int, *, names: bool = True) -> bytes:
    """The body of a TABLE_MAP event.

    With names as under binlog_row_metadata=FULL, without as under MariaDB's NO_LOG.
    """
    described = [announced(column) for column in table.columns]
    metadata = b"".join(m for _, m in described)
    count = len(described)
    out = number.to_bytes(6, "little") + b"\1\0"
    for name in (table.database, table.name):
        out += bytes([len(name.encode())]) + name.encode() + b"\0"
    out += lenenc(count) + bytes(code for code, _ in described) + lenenc(len(metadata)) + metadata
    out += b"\xff" * ((count + 7) // 8)
    return out + _described(table.columns) if names else out


_COLLATIONS = {"utf8mb4": 255, "utf8mb3": 33, "latin1": 8, None: 63}


def _described(columns: Sequence[Column]) -> bytes:
    """The optional metadata: signedness, character sets (one by one), labels, names."""
    numeric = [c for c in columns if c.type in WIDTHS or c.type in ("float", "double", "decimal", "year")]
    sizes = ("text", "blob", "char", "binary")
    character = [c for c in columns if c.type.endswith(sizes) or c.type in FIXED or c.type == "vector"]
    enums, sets = ([c for c in columns if c.type == kind] for kind in ("enum", "set"))
    labelled = [c for c in columns if c.type in ("enum", "set")]
    signs = sum(1 << (len(numeric) + 7) // 8 * 8 - 1 - n for n, c in enumerate(numeric) if c.unsigned)
    fields = {
        1: signs.to_bytes((len(numeric) + 7) // 8, "big"),
        3: b"".join(lenenc(_COLLATIONS[c.charset]) for c in character),
        11: b"".join(lenenc(_COLLATIONS[c.charset]) for c in labelled),
        4: b"".join(lenenc(len(c.name.encode())) + c.name.encode() for c in columns),
    }
    for number, chosen in ((6, enums), (5, sets)):
        fields[number] = b"".join(
            lenenc(len(c.labels)) + b"".join(lenenc(len(label.encode())) + label.encode() for label in c.labels)
            for c in chosen
        )
    return b"".join(bytes([number]) + lenenc(len(field)) + field for number, field in fields.items() if field)


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
    """One binlog file as the packets of its dump; `position` is behind its last event."""

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
        """Begin a transaction as MySQL does; number 0 is a transaction without GTID."""
        self.add(33 if number else 34, b"\1" + server.bytes + number.to_bytes(8, "little") + bytes(17), at=at)

    def maria_gtid(self, domain: int, number: int) -> None:
        """Begin a transaction as MariaDB does."""
        self.add(162, number.to_bytes(8, "little") + domain.to_bytes(4, "little") + bytes(7))

    def query(
        self, statement: str | bytes, database: str = "shop", *, collation: int = 45, mode: int = 0, more: bytes = b""
    ) -> int:
        """A QUERY event of a session with this `character_set_client` and SQL mode. more: further status variables."""
        text = statement if isinstance(statement, bytes) else statement.encode()
        status = struct.pack("<BIBQ", 0, 0, 1, mode) + struct.pack("<BHHH", 4, collation, collation, 8) + more
        head = struct.pack("<IIBHH", 7, 0, len(database), 0, len(status)) + status
        return self.add(2, head + database.encode() + b"\0" + text)

    def rows(self, table: Table, number: int, kind: str, rows: Sequence[Sequence[Any]], *, version: int = 2) -> int:
        """A row event."""
        return self.add(ROW_KINDS[kind, version], rows_body(table, number, kind, rows, version=version))

    def commit(self) -> int:
        """The XID event that ends a transaction."""
        return self.add(16, bytes(8))

    def rotate(self, next_file: str) -> int:
        """End the file."""
        return self.add(4, (4).to_bytes(8, "little") + next_file.encode())
