"""Texts and binaries.

Rows arrive in the connection's character set, utf8mb4; the server has converted them. Row images contain the column's
own bytes. BINARY(n) arrives in images without its trailing zero bytes, which are restored. CHAR arrives without
trailing blanks in both, as `SELECT` returns it. MariaDB's COMPRESSED columns arrive compressed in row images and are
decompressed here (compressed *events*: `decode.unfold`).
"""

import zlib
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import if_captured
from engine.decode.charsets import CHARSETS, to_utf8
from engine.decode.collations import charset_of
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import DecodeImage, Mapped, Nulls, RecordBuffer, ValueType, fail, slices

_VARCHAR, _VAR_STRING, _BLOB, _STRING = 15, 253, 252, 254
_BLOB_COMPRESSED, _VARCHAR_COMPRESSED = 140, 141
PROTOCOL = frozenset({_VARCHAR, _VAR_STRING, _BLOB, _STRING, 249, 250, 251})
"""Type codes with which a result set announces texts and binaries."""
_DEFLATE = 0x80


def _checked_text(text: pa.Array, column: Column) -> pa.Array:
    """Return the texts if they are valid UTF-8. Raises DecodeError otherwise."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        raise fail(column, "a text is not valid in its character set", "Correct the value in the source.") from None
    return text


def _rows(
    type_: pa.DataType, records: RecordBuffer, at: Offsets, null: Nulls, column: Column
) -> tuple[pa.Array, Offsets]:
    start, after = records.counted(at, null, column)
    value = slices(records.buffer, start, after, null, type_)
    return (_checked_text(value, column) if pa.types.is_string(type_) else value), after


row_texts = partial(_rows, pa.string())
"""Decodes texts that the server sends in the connection's character set."""
row_binaries = partial(_rows, pa.binary())
"""Decodes binaries in rows."""


def length_bytes(mapped: Mapped) -> int:
    """The bytes of each value's length prefix (MySQL source, binlog_event / table map metadata)."""
    code, metadata = mapped.code, mapped.metadata
    if len(metadata) == 1:
        return metadata[0]
    if code in (_VARCHAR, _VAR_STRING, _VARCHAR_COMPRESSED):
        return 2 if int.from_bytes(metadata, "little") > 0xFF else 1
    # CHAR and BINARY: the real type and the length share two bytes. Lengths over 255 use two inverted bits of the
    # type's byte.
    longest = metadata[1] | ((metadata[0] & 0x30) ^ 0x30) << 4
    return 2 if longest > 0xFF else 1


def image_binaries(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    """The stored bytes of texts and binaries with a length prefix."""
    prefix = length_bytes(mapped)
    length, start = records.unsigned(at, prefix).astype(np.int64), at + prefix
    if null is not None:
        length, start = np.where(null, 0, length), np.where(null, at, start)
    after = records.inside(start + length, column)
    value = slices(records.buffer, start, after, null, pa.binary())
    if mapped.code in (_BLOB_COMPRESSED, _VARCHAR_COMPRESSED):
        value = pa.array([v if v is None else _inflated(v, column) for v in value.to_pylist()], pa.binary())
    return value, after


def _image_texts(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    value, after = image_binaries(records, at, null, column, mapped)
    try:
        text = to_utf8(value, column.charset or "")
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise fail(column, "a text is not valid in its character set", "Correct the value in the source.") from None
    except pa.ArrowCapacityError:
        raise fail(column, "its texts in one binlog range exceed 2 GiB", "Report this.") from None
    if column.tells_apart and _lost_codes(value, text, column.charset or ""):
        raise fail(
            column,
            "a key contains a code that its character set does not define, so keys could be confused",
            f"Correct the value in the source, or exclude the table. {if_captured('…')}",
        )
    return text, after


def _lost_codes(value: pa.Array, text: pa.Array, charset: str) -> bool:
    """Whether a code became "?" or U+FFFD.

    It applies to character sets where the byte 3F is "?" and never a part of another code.
    """
    if charset.startswith(("utf", "ucs")):
        return False
    marks = pc.sum(pc.count_substring(text, "?")).as_py()
    return bool(
        marks != pc.sum(pc.count_substring(value, b"?")).as_py() or pc.any(pc.match_substring(text, "\ufffd")).as_py()
    )


def image_padded(
    width: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    """Binaries of `width` bytes that arrive without their trailing zero bytes. Raises DecodeError for a longer one."""
    value, after = image_binaries(records, at, null, column, mapped)
    length = pc.fill_null(pc.binary_length(value), width).to_numpy(zero_copy_only=False)
    if (length == width).all():
        return value, after
    if (length > width).any():
        raise fail(column, f"a value is longer than {width} bytes", "Report this with the server's version.")
    padding = pa.array([b"\0" * n for n in range(width + 1)], pa.binary()).take(pa.array(width - length))
    return pc.binary_join_element_wise(value, padding, pa.scalar(b"", pa.binary())), after


def _image_fixed(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    return image_padded(column.length, records, at, null, column, mapped)


def _inflated(stored: bytes, column: Column) -> bytes:
    """The value of a COMPRESSED column. Raises DecodeError if it is invalid."""
    if not stored or stored[0] == 0:
        return stored[1:]
    size = stored[0] & 7
    length = int.from_bytes(stored[1 : 1 + size], "big")
    inflate = zlib.decompressobj(-zlib.MAX_WBITS if stored[0] & 8 else zlib.MAX_WBITS)
    try:
        value = inflate.decompress(stored[1 + size :], length + 1) if stored[0] & 0xF0 == _DEFLATE else b""
    except zlib.error:
        value = b""
    if not length or len(value) != length:
        raise fail(column, "a compressed value cannot be decompressed", "Report this with the server's version.")
    return value


def _charset_fault(column: Column) -> str | None:
    return None if column.charset in CHARSETS else f"character set {column.charset}"


def charset_fits(column: Column, mapped: Mapped) -> bool:
    """Whether the table map's character set, if it has one, is the column's."""
    return mapped.collation is None or charset_of(mapped.collation) in (column.charset, None)


def prefix_fits(_column: Column, mapped: Mapped) -> bool:
    """Whether the metadata announce a length prefix."""
    if mapped.code == _STRING:
        # ENUM and SET have the same code; the first byte distinguishes them (two of its bits belong to the length).
        return mapped.metadata[0] | 0x30 == _STRING
    return len(mapped.metadata) > 1 or mapped.metadata[0] in (1, 2, 3, 4)


def _text(*binlog: int) -> ValueType:
    return ValueType(
        arrow=lambda _: pa.string(),
        row=row_texts,
        image=_image_texts,
        protocol=PROTOCOL,
        binlog=frozenset(binlog),
        fits=lambda column, mapped: prefix_fits(column, mapped) and charset_fits(column, mapped),
        fault=_charset_fault,
    )


def _binary(*binlog: int, image: DecodeImage = image_binaries) -> ValueType:
    return ValueType(
        arrow=lambda _: pa.binary(),
        row=row_binaries,
        image=image,
        protocol=PROTOCOL,
        binlog=frozenset(binlog),
        fits=prefix_fits,
    )


_SIZES = ("tiny", "", "medium", "long")
TYPES = {
    "char": _text(_STRING),
    "varchar": _text(_VARCHAR, _VAR_STRING, _VARCHAR_COMPRESSED),
    **{f"{size}text": _text(_BLOB, _BLOB_COMPRESSED) for size in _SIZES},
    "binary": _binary(_STRING, image=_image_fixed),
    "varbinary": _binary(_VARCHAR, _VAR_STRING, _VARCHAR_COMPRESSED),
    **{f"{size}blob": _binary(_BLOB, _BLOB_COMPRESSED) for size in _SIZES},
}
