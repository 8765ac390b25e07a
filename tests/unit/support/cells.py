"""Single values in MySQL's formats, encoded from the manuals, one function per type: rows, images and table maps."""

import ipaddress
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from engine.decode.schema import Column

Encoder = Callable[[Column, Any], bytes]
WIDTHS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_SIZED = {f"{size}{kind}": width for size, width in _BLOBS.items() for kind in ("text", "blob")}
_SIZED |= {"geometry": 4, "vector": 4, "json": 4}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIXED: dict[str, Callable[[str], bytes]] = {
    "uuid": lambda text: uuid.UUID(text).bytes,
    "inet4": lambda text: ipaddress.IPv4Address(text).packed,
    "inet6": lambda text: ipaddress.IPv6Address(text).packed,
}
"""MariaDB's types that are stored as binaries of a fixed length."""


def lenenc(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    return b"\xfd" + number.to_bytes(3, "little") if number < 1 << 24 else b"\xfe" + number.to_bytes(8, "little")


def latin1(text: str) -> bytes:
    """MySQL's latin1: Windows-1252 plus the five bytes that it leaves undefined."""
    return b"".join(bytes([ord(c)]) if c in "\x81\x8d\x8f\x90\x9d" else c.encode("cp1252") for c in text)


def _integer(column: Column, value: int) -> bytes:
    return int(value).to_bytes(WIDTHS[column.type], "little", signed=not column.unsigned)


def _floating(column: Column, value: float) -> bytes:
    return struct.pack("<f" if column.type == "float" else "<d", value)


def _raw(_: Column, value: Any) -> bytes:
    """The bytes of a binary, a bit field or a vector."""
    if isinstance(value, list):
        return struct.pack(f"<{len(value)}f", *value)
    return bytes([value]) if isinstance(value, bool) else bytes(value)


def _counted(column: Column, value: Any) -> bytes:
    """In rows: a length-encoded length, then the content; texts are UTF-8."""
    content = f"{Decimal(value):.{column.scale}f}" if column.type == "decimal" else value
    content = content.encode() if isinstance(content, str) else _raw(column, content)
    return lenenc(len(content)) + content


def _row_date(_: Column, value: Any) -> bytes:
    return struct.pack("<BHBB", 4, value.year, value.month, value.day)


def _row_datetime(_: Column, value: datetime) -> bytes:
    parts = struct.pack("<HBBBBB", value.year, value.month, value.day, value.hour, value.minute, value.second)
    if value.microsecond:
        return b"\x0b" + parts + struct.pack("<I", value.microsecond)
    return b"\x07" + parts if any(parts[4:]) else b"\x04" + parts[:4]


def _time_parts(text: str) -> tuple[bool, int, int, int, int]:
    """Sign, hours, minutes, seconds and microseconds of a TIME's text."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    return text.startswith("-"), int(hours), int(minutes), int(whole), int(fraction.ljust(6, "0"))


def _row_time(_: Column, text: str) -> bytes:
    minus, hours, minutes, seconds, us = _time_parts(text)
    head = struct.pack("<BIBBB", minus, hours // 24, hours % 24, minutes, seconds)
    if us:
        return b"\x0c" + head + struct.pack("<I", us)
    return b"\x08" + head if hours or minutes or seconds else b"\0"


ROW: dict[str, Encoder] = {
    **dict.fromkeys(WIDTHS, _integer),
    "mediumint": lambda c, v: int(v).to_bytes(4, "little", signed=not c.unsigned),
    "float": _floating,
    "double": _floating,
    "date": _row_date,
    "datetime": _row_datetime,
    "timestamp": _row_datetime,
    "time": _row_time,
    "year": lambda _, v: int(v).to_bytes(2, "little"),
}
"""Values in the binary protocol; the other types are `_counted`."""


def row_value(column: Column, value: Any) -> bytes:
    """A value in the binary protocol."""
    return ROW.get(column.type, _counted)(column, value)


def _fraction(value: datetime, digits: int) -> bytes:
    size = (digits + 1) // 2
    return int(value.microsecond // 100 ** (3 - size)).to_bytes(size, "big")


def _image_datetime(column: Column, value: datetime) -> bytes:
    day = (value.year * 13 + value.month) << 5 | value.day
    packed = day << 17 | value.hour << 12 | value.minute << 6 | value.second
    return int(packed + (1 << 39)).to_bytes(5, "big") + _fraction(value, column.fraction)


def _image_timestamp(column: Column, value: datetime) -> bytes:
    return int((value - _EPOCH).total_seconds()).to_bytes(4, "big") + _fraction(value, column.fraction)


def _image_time(column: Column, text: str) -> bytes:
    minus, hours, minutes, seconds, us = _time_parts(text)
    size = (column.fraction + 1) // 2
    packed = (hours << 12 | minutes << 6 | seconds) << 8 * size | us // 100 ** (3 - size)
    return int((0x800000 << 8 * size) + (-packed if minus else packed)).to_bytes(3 + size, "big")


def _packed_decimal(column: Column, value: Any) -> bytes:
    """decimal2bin: groups of nine digits, the first and last one shorter; all bits inverted for negative values."""
    number = Decimal(value)
    digits = f"{number.copy_abs():.{column.scale}f}".replace(".", "").zfill(column.precision)[-column.precision :]
    whole, fraction = digits[: column.precision - column.scale], digits[column.precision - column.scale :]
    head = len(whole) % 9
    groups = [whole[:head], *(whole[n : n + 9] for n in range(head, len(whole), 9))]
    groups += [fraction[n : n + 9] for n in range(0, len(fraction), 9)]
    out = b"".join(int(g).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(g)], "big") for g in groups if g)
    if number < 0:
        out = bytes(b ^ 0xFF for b in out)
    return bytes([out[0] ^ 0x80]) + out[1:]


def _label_bytes(column: Column) -> int:
    count = len(column.labels)
    if column.type == "enum":
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return 8 if size > 4 else size


def _enum(column: Column, value: str) -> bytes:
    number = column.labels.index(value) + 1 if value in column.labels else 0
    return number.to_bytes(_label_bytes(column), "little")


def _set(column: Column, value: str) -> bytes:
    number = sum(1 << column.labels.index(member) for member in value.split(",") if member)
    return number.to_bytes(_label_bytes(column), "little")


def _prefixed(column: Column, value: Any) -> bytes:
    """In images: the length, in as many bytes as the type has, then the stored bytes."""
    if column.type in FIXED:
        content = FIXED[column.type](value).rstrip(b"\0")
    elif isinstance(value, str):
        content = latin1(value) if column.charset == "latin1" else value.encode()
    else:
        content = _raw(column, value)
    if column.type == "binary":
        content = content.rstrip(b"\0")
    return len(content).to_bytes(_length_bytes(column), "little") + content


def _length_bytes(column: Column) -> int:
    return _SIZED.get(column.type, 2 if column.length > 255 else 1)


IMAGE: dict[str, Encoder] = {
    **dict.fromkeys(WIDTHS, _integer),
    "float": _floating,
    "double": _floating,
    "decimal": _packed_decimal,
    "date": lambda _, v: int(v.year << 9 | v.month << 5 | v.day).to_bytes(3, "little"),
    "datetime": _image_datetime,
    "timestamp": _image_timestamp,
    "time": _image_time,
    "year": lambda _, v: bytes([v - 1900 if v else 0]),
    "bit": _raw,
    "enum": _enum,
    "set": _set,
}
"""Values in a row image; the other types are `_prefixed`."""


def image_value(column: Column, value: Any) -> bytes:
    """A value in a row image."""
    return IMAGE.get(column.type, _prefixed)(column, value)


_CODES = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 17, "bigint": 8, "mediumint": 9,
    "date": 10,
    "time": 19, "datetime": 18, "year": 13, "bit": 16, "varchar": 15, "varbinary": 15, "vector": 242, "json": 245,
    "decimal": 246,
    "enum": 254, "set": 254, "char": 254, "binary": 254, "uuid": 254, "inet4": 254, "inet6": 254, "geometry": 255,
}  # fmt: skip
_METADATA: dict[str, Callable[[Column], bytes]] = {
    "float": lambda _: b"\4",
    "double": lambda _: b"\x08",
    **dict.fromkeys(("datetime", "timestamp", "time"), lambda c: bytes([c.fraction])),
    "decimal": lambda c: bytes([c.precision, c.scale]),
    "bit": lambda c: bytes([c.precision % 8, c.precision // 8]),
    "enum": lambda c: bytes([247, _label_bytes(c)]),
    "set": lambda c: bytes([248, _label_bytes(c)]),
    **dict.fromkeys(FIXED, lambda c: bytes([254, 4 if c.type == "inet4" else 16])),
    **dict.fromkeys(("char", "binary"), lambda c: bytes([0xFE ^ (c.length & 0x300) >> 4, c.length & 0xFF])),
    **dict.fromkeys(("varchar", "varbinary"), lambda c: c.length.to_bytes(2, "little")),
    **dict.fromkeys(_SIZED, lambda c: bytes([_length_bytes(c)])),
}


def announced(column: Column) -> tuple[int, bytes]:
    """Type code and metadata of a column in a table map."""
    code = _CODES.get(column.type, 252)
    return code, _METADATA[column.type](column) if column.type in _METADATA else b""


def protocol_code(column: Column) -> int:
    """The type code that a result set announces."""
    codes = {"datetime": 12, "timestamp": 7, "time": 11, "varchar": 253, "varbinary": 253}
    return codes.get(column.type, announced(column)[0])
