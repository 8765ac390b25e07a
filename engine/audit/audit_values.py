"""One form for the values of a column as mysql-replication returns them and as the change log has them.

These rules are written for the audit and share no code with `engine.decode`. Numbers stay numbers, times of all kinds
become whole days or microseconds, binaries bytes, and texts Python's strings. Texts of character sets other than UTF-8,
ASCII and latin1 are converted by the server.

A value that the package decodes wrongly becomes `UNSURE`, which equals everything (`audit_limits`).
"""

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import Column

EMPTY_SET, OUT_OF_RANGE = "empty set", "out of date"
"""How the package says why it returns None; the second is the beginning."""
INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year"))
TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
LABELS = frozenset(("enum", "set"))
BYTES = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "uuid", "inet4", "inet6", "geometry")
)
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()  # noqa: DTZ001 - the package returns such times
_FIRST_TIMESTAMP = _EPOCH + timedelta(seconds=1)
_US = timedelta(microseconds=1)
_UTF8 = frozenset(("utf8mb3", "utf8mb4", "ascii"))
_OPAQUE = re.compile(r"base64:type\d+:")
_NUMBER_PLACES = 6


def _cp1252(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


_LATIN1 = {byte: _cp1252(byte) for byte in range(0x80, 0xA0)}
"""MySQL's latin1 is cp1252, whose five undefined bytes stay what they are (MySQL manual, "West European Character
Sets")."""


class Unsure:
    """A value that is not known; it equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "(not comparable)"


UNSURE = Unsure()


class Texts(Protocol):
    """Converts bytes to text as the server does."""

    def texts(self, charset: str, values: Sequence[bytes]) -> Mapping[bytes, str | Unsure]:
        """The text of each of these bytes in a character set; charset "inet6": of sixteen bytes as an address."""


class _JsonNumber:
    """A number of a JSON text that has a point or an exponent: a double or a decimal, whichever it is compared with."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _JsonNumber):
            return Decimal(self._text) == Decimal(other._text)
        if isinstance(other, Decimal):
            return Decimal(self._text) == other
        return isinstance(other, float) and float(self._text) == other

    def __hash__(self) -> int:
        return hash(Decimal(self._text))

    def __repr__(self) -> str:
        return self._text


def _float(value: float) -> float | str:
    return value or repr(value)  # tells -0.0 from 0.0


def theirs(
    column: Column, values: Sequence[Any], nones: Sequence[Mapping[str, str]], texts: Texts, limits: Counter[str]
) -> list[Any]:
    """The values of a column from the package, in the common form.

    nones: by column, why the package returns None, for each row. limits: gets the number of values that are UNSURE, by
    limit.
    """
    kind = column.type
    if kind in TEXTS or kind in BYTES:
        # Python decodes no bytes to an empty text, whatever the encoding.
        values = [b"" if value == "" else value for value in values]
    if kind in TEXTS or kind in ("uuid", "inet4", "inet6"):
        return _texts(column, values, texts, limits)
    if kind in ("date", "datetime"):
        return list(_dates(column, values, nones, limits))
    if kind == "set":
        return list(_sets(column, values, nones, limits))
    if kind == "json":
        if any(value is None for value in values):
            limits["json_null"] += sum(value is None for value in values)
        return [_json(value, limits) for value in values]
    convert = _CONVERTED.get(kind)
    if convert is None:
        return list(values)
    return [None if value is None else convert(column, value, limits) for value in values]


def _limited(name: str, limits: Counter[str]) -> Unsure:
    limits[name] += 1
    return UNSURE


def _year(_: Column, value: int, limits: Counter[str]) -> Any:
    return _limited("year_zero", limits) if value == 1900 else value


def _timestamp(_: Column, value: datetime, limits: Counter[str]) -> Any:
    return _limited("zero_timestamp", limits) if value < _FIRST_TIMESTAMP else (value - _EPOCH) // _US


def _time(_: Column, value: timedelta, limits: Counter[str]) -> Any:
    if value.days < 0 and value.microseconds:
        return _limited("negative_time", limits)
    return value // _US


def _label(column: Column, value: str, limits: Counter[str]) -> Any:
    return value if _has_labels(column) else _limited("labels", limits)


def _has_labels(column: Column) -> bool:
    return column.charset in _UTF8 or (column.charset == "latin1" and all(label.isascii() for label in column.labels))


def _padded(column: Column, value: bytes, _: Counter[str]) -> bytes:
    return value.ljust(column.length, b"\0")  # the binlog has a BINARY without its trailing zero bytes


_CONVERTED: dict[str, Callable[[Column, Any, Counter[str]], Any]] = {
    "year": _year,
    "timestamp": _timestamp,
    "time": _time,
    "enum": _label,
    "binary": _padded,
    "bit": lambda _, value, __: int(value, 2),
    "float": lambda _, value, __: _float(value),
    "double": lambda _, value, __: _float(value),
}


def _dates(
    column: Column, values: Sequence[Any], nones: Sequence[Mapping[str, str]], limits: Counter[str]
) -> Iterator[Any]:
    for value, why in zip(values, nones, strict=True):
        if value is None:
            out = why.get(column.name, "").startswith(OUT_OF_RANGE)
            yield _limited("date_out_of_range", limits) if out else None
        elif column.type == "date":
            yield value.toordinal() - _EPOCH_DAY
        else:
            yield (value - _EPOCH) // _US


def _sets(
    column: Column, values: Sequence[Any], nones: Sequence[Mapping[str, str]], limits: Counter[str]
) -> Iterator[Any]:
    has_labels = _has_labels(column)
    for value, why in zip(values, nones, strict=True):
        if value is None:
            yield frozenset() if why.get(column.name) == EMPTY_SET else None
        else:
            yield frozenset(value) if has_labels else _limited("labels", limits)


def _texts(column: Column, values: Sequence[Any], texts: Texts, limits: Counter[str]) -> list[Any]:
    text_of: Mapping[bytes, Any]
    distinct = {value for value in values if value is not None}
    if column.type == "inet6":
        padded = {value: value.ljust(16, b"\0") for value in distinct}
        addresses = texts.texts("inet6", sorted(padded.values()))
        text_of = {value: addresses[whole] for value, whole in padded.items()}
    elif column.type == "uuid":
        text_of = {value: str(uuid.UUID(bytes=value.ljust(16, b"\0"))) for value in distinct}
    elif column.type == "inet4":
        text_of = {value: ".".join(map(str, value.ljust(4, b"\0"))) for value in distinct}
    elif column.charset in _UTF8:
        text_of = {value: _utf8(value, limits) for value in distinct}
    elif column.charset == "latin1":
        text_of = {value: value.decode("latin1").translate(_LATIN1) for value in distinct}
    else:
        text_of = texts.texts(column.charset or "binary", sorted(distinct))
        limits.update({"text": sum(text_of[value] is UNSURE for value in values if value is not None)})
    return [None if value is None else text_of[value] for value in values]


def _utf8(value: bytes, limits: Counter[str]) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _limited("text", limits)


def _json(value: Any, limits: Counter[str]) -> Any:
    """A document from the package, whose texts are bytes."""
    if isinstance(value, dict):
        return {_json(name, limits): _json(item, limits) for name, item in value.items()}
    if isinstance(value, list):
        return [_json(item, limits) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return ("boolean", value)
    if value is None or isinstance(value, int | float | str | Decimal):
        return value
    return _limited("json_opaque", limits)


def _document(text: str, limits: Counter[str]) -> Any:
    """A document of the change log; `null` is taken for NULL, as by the package."""

    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: known(item) for name, item in value.items()}
        if isinstance(value, list):
            return [known(item) for item in value]
        if isinstance(value, bool):
            return ("boolean", value)
        return _limited("json_opaque", limits) if isinstance(value, str) and _OPAQUE.match(value) else value

    return known(json.loads(text, parse_float=_JsonNumber))


def ours(column: Column, values: pa.ChunkedArray, limits: Counter[str]) -> list[Any]:
    """The values of a column from the change log, in the common form."""
    kind, stored = column.type, values.type
    if kind == "date":
        return list(values.cast(pa.int32()).to_pylist())
    if kind in ("datetime", "timestamp"):
        return list(values.cast(pa.int64()).to_pylist())
    convert = _STORED.get(kind)
    if pa.types.is_decimal(stored) and kind in INTEGERS:
        convert = int
    elif pa.types.is_floating(stored):
        convert = _float
    elif kind == "decimal" and pa.types.is_string(stored):
        convert = Decimal
    elif kind == "json":
        convert = partial(_document, limits=limits)
    raw_values = values.to_pylist()
    return raw_values if convert is None else [None if value is None else convert(value) for value in raw_values]


def _microseconds(text: str) -> int:
    """A TIME as the server prints it."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours) * 60 + int(minutes)) * 60 + int(whole)
    return sign * (total * 1_000_000 + int(fraction.ljust(_NUMBER_PLACES, "0")))


def _bits(value: bool | bytes) -> int:
    return int(value) if isinstance(value, bool) else int.from_bytes(value, "big")


def _members(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()


_STORED: dict[str, Callable[[Any], Any]] = {"time": _microseconds, "bit": _bits, "set": _members}


def seconds(values: pa.ChunkedArray) -> list[int]:
    """Times of commits, in seconds since 1970."""
    return list(pc.divide(values.cast(pa.int64()), 1_000_000).to_pylist())


def shown(column: Column | None, value: Any) -> str:
    """A value as text, for the report."""
    if value is None or isinstance(value, Unsure):
        return "NULL" if value is None else repr(value)
    if column is not None and column.type == "date":
        return str(date.fromordinal(value + _EPOCH_DAY)) if value + _EPOCH_DAY > 0 else f"day {value}"
    if column is not None and column.type in ("datetime", "timestamp"):
        return _time_text(value)
    if isinstance(value, bytes):
        return f"x'{value[:100].hex()}'"
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value)[:200]


def _time_text(us: int) -> str:
    try:
        return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + us * _US)
    except OverflowError:
        return f"{us} microseconds since 1970"
