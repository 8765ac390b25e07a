"""ENUM and SET: labels in rows, numbers in images.

Rows contain the labels as text; those of a SET are joined by commas. Images contain the number of the ENUM's label,
from 1 (0 is the empty text that the server stores for an invalid one), or a bit per member of the SET. The labels come
from the table map if it contains them (`binlog_row_metadata=FULL`), so rows written before an ALTER keep their original
labels; otherwise from the catalog.
"""

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.charsets import CHARSETS, to_utf8
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, fail
from engine.decode.types.strings import PROTOCOL, charset_fits, row_texts

ENUM, SET = 247, 248
"""The first metadata byte of each; both have the type code of CHAR."""
_STRING = 254
_TWO_BYTES, _MOST_PACKED = 256, 4
"""An ENUM takes two bytes from this many labels. A SET that needs more bytes takes eight (MySQL source,
sql/field.cc)."""
_BEYOND_UTF8MB3 = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_FULL = (
    "Set binlog_row_metadata = FULL on the source (`tidemark check SPEC` shows the statement), so that the binlog "
    "contains them."
)
_UNKNOWN = "Report this with the server's version; binlog_row_metadata = FULL makes such values certain."


def _numbers(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[npt.NDArray[np.uint64], Offsets]:
    """The number of each value, 0 for NULL, and the cursors after them."""
    width = mapped.metadata[1]
    after = records.inside(advance(at, width, null), column)
    number = records.unsigned(at, width)
    return number if null is None else np.where(null, np.uint64(0), number), after


def _labels(column: Column, mapped: Mapped) -> list[str]:
    if mapped.labels is None:
        # The catalog uses utf8mb3: it shows characters beyond that as "?".
        if column.charset in _BEYOND_UTF8MB3 and any("?" in label for label in column.labels):
            raise fail(column, "the server's catalog may not show its labels correctly", _FULL)
        return list(column.labels)
    try:
        return list(to_utf8(pa.array(mapped.labels, pa.binary()), column.charset or "").to_pylist())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise fail(column, "a label is not valid in its character set", "Correct the label in the source.") from None


def _enums(records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped) -> tuple[pa.Array, Offsets]:
    number, after = _numbers(records, at, null, column, mapped)
    labels = ["", *_labels(column, mapped)]
    if (number >= len(labels)).any():
        raise fail(column, f"the binlog contains label {int(number.max())} of {len(labels) - 1}", _UNKNOWN)
    return pa.array(labels, pa.string()).take(pa.array(number, mask=null)), after


def _sets(records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped) -> tuple[pa.Array, Offsets]:
    number, after = _numbers(records, at, null, column, mapped)
    labels = _labels(column, mapped)
    distinct, slots = np.unique(number, return_inverse=True)
    if len(distinct) and int(distinct[-1]) >> len(labels):
        raise fail(column, f"the binlog contains a member beyond the {len(labels)} of the set", _UNKNOWN)
    texts = [
        ",".join(label for n, label in enumerate(labels) if members >> n & 1) for members in map(int, distinct.tolist())
    ]
    return pa.array(texts, pa.string()).take(pa.array(slots, mask=null)), after


def _fits(marker: int, column: Column, mapped: Mapped) -> bool:
    if mapped.metadata[0] != marker or not charset_fits(column, mapped):
        return False
    count = len(column.labels if mapped.labels is None else mapped.labels)
    if marker == ENUM:
        return mapped.metadata[1] == (1 if count < _TWO_BYTES else 2)
    size = (count + 7) // 8
    return mapped.metadata[1] == (8 if size > _MOST_PACKED else size)


def _fault(column: Column) -> str | None:
    return (
        None
        if column.charset in CHARSETS
        else f"{column.type.upper()} in the {column.charset or 'binary'} character set"
    )


TYPES = {
    name: ValueType(
        arrow=lambda _: pa.string(),
        row=row_texts,
        image=image,
        protocol=PROTOCOL,
        binlog=frozenset({_STRING}),
        fits=partial(_fits, marker),
        fault=_fault,
    )
    for name, marker, image in (("enum", ENUM, _enums), ("set", SET, _sets))
}
