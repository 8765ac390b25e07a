"""The optional metadata of a TABLE_MAP event, which `binlog_row_metadata` adds to types and lengths.

A sequence of fields, each with its number (1 byte), its length (packed) and its content ("Table_map_event", MySQL
source, libs/mysql/binlog/event/rows_event.h; MariaDB writes the same). MINIMAL contains signedness and character sets;
FULL also names, labels and keys; MariaDB's default, NO_LOG, nothing. Character sets of character columns, and of ENUM
and SET, are separate fields: either one number per column, or a default and the exceptions, as pairs of a column's
number and its collation.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.decode.types.base import Mapped

_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_LABELS, _ENUM_LABELS = 1, 2, 3, 4, 5, 6
_DEFAULT_LABELS_CHARSET, _COLUMN_LABELS_CHARSET = 10, 11

# NUMERIC: TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, YEAR, NEWDECIMAL. CHARACTER: VARCHAR, VAR_STRING, STRING
# and the blobs; on MySQL also VECTOR, on MariaDB the compressed types and GEOMETRY (seen in the table maps of both
# servers).
_NUMERIC = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 246})
_CHARACTER = frozenset({15, 249, 250, 251, 252, 253, 254})
_CHARACTER_MYSQL, _CHARACTER_MARIADB = _CHARACTER | {242}, _CHARACTER | {140, 141, 255}
_STRING, _ENUM, _SET = 254, 247, 248


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer and the offset after it. Raises IndexError beyond the end of the data."""
    first = data[at]
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if not width:
        return first, at + 1
    end = at + 1 + width
    if end > len(data):
        raise IndexError(end)
    return int.from_bytes(data[at + 1 : end], "little"), end


def describe_columns(
    columns: Sequence[Mapped], metadata: bytes, *, mariadb: bool
) -> tuple[tuple[Mapped, ...], tuple[str, ...] | None]:
    """Add the optional metadata to the columns. Also returns the columns' names, if they are given.

    Raises IndexError for metadata that do not match these columns, UnicodeDecodeError for a name that is not UTF-8.
    """
    fields = dict(_fields(metadata))
    described = list(columns)
    kinds = [_kind(column, mariadb=mariadb) for column in columns]
    places = {kind: [n for n, k in enumerate(kinds) if k == kind] for kind in ("number", "text", "enum", "set")}

    def describe(chosen: Sequence[int], name: str, values: Sequence[Any]) -> None:
        if len(values) != len(chosen):
            raise IndexError(name)
        for n, value in zip(chosen, values, strict=True):
            described[n] = replace(described[n], **{name: value})

    labelled = sorted(places["enum"] + places["set"])
    if _SIGNEDNESS in fields:
        describe(places["number"], "unsigned", _bits(fields[_SIGNEDNESS], len(places["number"])))
    for chosen, default, each in (
        (places["text"], _DEFAULT_CHARSET, _COLUMN_CHARSET),
        (labelled, _DEFAULT_LABELS_CHARSET, _COLUMN_LABELS_CHARSET),
    ):
        if default in fields:
            describe(chosen, "collation", _with_default(_integers(fields[default]), len(chosen)))
        elif each in fields:
            describe(chosen, "collation", _integers(fields[each]))
    for kind, field in (("enum", _ENUM_LABELS), ("set", _SET_LABELS)):
        if field in fields:
            describe(places[kind], "labels", _label_lists(fields[field]))
    names = tuple(name.decode() for name in _strings(fields[_NAMES])) if _NAMES in fields else None
    return tuple(described), names


def _kind(column: Mapped, *, mariadb: bool) -> str:
    if column.code == _STRING and column.metadata[0] in (_ENUM, _SET):
        return "enum" if column.metadata[0] == _ENUM else "set"
    if column.code in _NUMERIC:
        return "number"
    return "text" if column.code in (_CHARACTER_MARIADB if mariadb else _CHARACTER_MYSQL) else "other"


def _fields(metadata: bytes) -> list[tuple[int, bytes]]:
    at, out = 0, []
    while at < len(metadata):
        field = metadata[at]
        size, at = packed_integer(metadata, at + 1)
        out.append((field, _cut(metadata, at, size)))
        at += size
    return out


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError(at + size)
    return data[at : at + size]


def _bits(data: bytes, count: int) -> list[bool]:
    if len(data) != (count + 7) // 8:
        raise IndexError(count)
    return [bool(data[n >> 3] >> (7 - (n & 7)) & 1) for n in range(count)]


def _integers(data: bytes) -> list[int]:
    at, out = 0, []
    while at < len(data):
        value, at = packed_integer(data, at)
        out.append(value)
    return out


def _with_default(numbers: list[int], count: int) -> list[int]:
    collations = [numbers[0]] * count
    for n in range(1, len(numbers), 2):
        collations[numbers[n]] = numbers[n + 1]
    return collations


def _strings(data: bytes) -> list[bytes]:
    at, out = 0, []
    while at < len(data):
        size, at = packed_integer(data, at)
        out.append(_cut(data, at, size))
        at += size
    return out


def _label_lists(data: bytes) -> list[tuple[bytes, ...]]:
    at, out = 0, []
    while at < len(data):
        count, at = packed_integer(data, at)
        labels = []
        for _ in range(count):
            size, at = packed_integer(data, at)
            labels.append(_cut(data, at, size))
            at += size
        out.append(tuple(labels))
    return out
