"""Texts and binaries.

Rows arrive in the connection's character set, which is utf8mb4: the server has converted them. Row images hold the column's own
bytes. BINARY(n) arrives in images without its trailing zero bytes and gets them back. CHAR comes without trailing blanks on
both ways, as `SELECT` gives it.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.charsets import CHARSETS, to_utf8
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, Records, ValueType, fail, slices

_VARCHAR, _VAR_STRING, _BLOB, _STRING = 15, 253, 252, 254
_PROTOCOL = frozenset({_VARCHAR, _VAR_STRING, _BLOB, _STRING, 249, 250, 251})


def _checked_text(text: pa.Array, column: Column) -> pa.Array:
    """The texts, when they are valid UTF-8. Raises DecodeError otherwise."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        raise fail(column, "a text is not valid in its character set", "Correct the value in the source.") from None
    return text


def _rows(type_: pa.DataType, records: Records, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    start, after = records.counted(at, null, column)
    value = slices(records, start, after, null, type_)
    return (_checked_text(value, column) if pa.types.is_string(type_) else value), after


def _prefix(mapped: Mapped) -> int:
    """Bytes of the length in front of each value (MySQL source, binlog_event / table map metadata)."""
    code, metadata = mapped.code, mapped.metadata
    if code == _BLOB:
        return metadata[0]
    if code in (_VARCHAR, _VAR_STRING):
        return 2 if int.from_bytes(metadata, "little") > 0xFF else 1
    # CHAR and BINARY: the real type and the length share two bytes; lengths over 255 use two bits of the type's byte, inverted.
    longest = metadata[1] | ((metadata[0] & 0x30) ^ 0x30) << 4
    return 2 if longest > 0xFF else 1


def _images(
    type_: pa.DataType, records: Records, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    prefix = _prefix(mapped)
    length, start = records.unsigned(at, prefix).astype(np.int64), at + prefix
    if null is not None:
        length, start = np.where(null, 0, length), np.where(null, at, start)
    after = records.inside(start + length, column)
    value = slices(records, start, after, null, pa.binary())
    if column.type == "binary":
        value = _padded(value, column.length, length)
    if pa.types.is_binary(type_):
        return value, after
    if column.charset not in CHARSETS:
        raise fail(column, f"character set {column.charset} is not supported", "Convert the column to utf8mb4.")
    try:
        return to_utf8(value, column.charset), after
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise fail(column, "a text is not valid in its character set", "Correct the value in the source.") from None


def _padded(value: pa.Array, width: int, length: Offsets) -> pa.Array:
    """BINARY(width) with its trailing zero bytes."""
    if not len(value) or (length == width).all():
        return value
    missing = pa.array([b"\0" * n for n in range(width + 1)], pa.binary()).take(pa.array(np.maximum(width - length, 0)))
    return pc.binary_join_element_wise(value, missing, pa.scalar(b"", pa.binary()))


def _charset_fault(column: Column) -> str | None:
    return None if column.charset in CHARSETS else f"character set {column.charset}"


def _text(*binlog: int) -> ValueType:
    return ValueType(
        arrow=lambda _: pa.string(),
        row=partial(_rows, pa.string()),
        image=partial(_images, pa.string()),
        protocol=_PROTOCOL,
        binlog=frozenset(binlog),
        fault=_charset_fault,
    )


def _binary(*binlog: int) -> ValueType:
    return ValueType(
        arrow=lambda _: pa.binary(),
        row=partial(_rows, pa.binary()),
        image=partial(_images, pa.binary()),
        protocol=_PROTOCOL,
        binlog=frozenset(binlog),
    )


TYPES = {
    "char": _text(_STRING),
    "varchar": _text(_VARCHAR, _VAR_STRING),
    "tinytext": _text(_BLOB),
    "text": _text(_BLOB),
    "mediumtext": _text(_BLOB),
    "longtext": _text(_BLOB),
    "binary": _binary(_STRING),
    "varbinary": _binary(_VARCHAR, _VAR_STRING),
    "tinyblob": _binary(_BLOB),
    "blob": _binary(_BLOB),
    "mediumblob": _binary(_BLOB),
    "longblob": _binary(_BLOB),
}
