"""Chunk keys: which columns a table is cut by, and how their values are written, in SQL and in plans.

A bound is a tuple of texts, one for each of the first columns of the key: `("7",)` lies in front of all keys whose first
column is 7 or more. Nothing asks that a bound be a key of the table; what matters is that everybody compares with it alike:
the predicates of chunks on the server, and whoever places a change among chunks. So each type says how a bound's text becomes
SQL, and how it becomes an Arrow scalar where Arrow compares as the server does. Where it has none, only the server may
compare (docs/architecture.md).

The placing of a text takes it from Unicode back into the column's character set. In five sets several codes are one character, so
that way back is not known, and a key in them is not ordered here. Codes that have no character at all, which the servers show
as "?", stop their table where a key has one: in a bound (`walk`), or in a row image (`decode.types.strings`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from engine.decode.schema import Column, Index, Table
from engine.decode.types import value_type
from engine.errors import SpecError
from engine.source.connect import quote

Bound = tuple[str, ...]
SEVERAL_CODES = frozenset({"armscii8", "cp932", "eucjpms", "sjis", "ujis"})
"""Character sets in which one character has several codes."""
EXACT = Context(prec=100)
"""Arithmetic on a DECIMAL of up to 65 digits; Python's own context rounds at 28."""


@dataclass(frozen=True)
class Order:
    """How the values of a type are written. `{}` in the templates is the quoted column or the text."""

    select: str
    """The expression that fetches a value."""
    literal: Callable[[Column, str], str]
    """A bound's text as SQL."""
    scalar: Callable[[Column, str], Any] | None = None
    """Turns a text into a value that Arrow compares as the server does; None where only the server can compare."""
    text: Callable[[Any], str] = str
    """Turns a decoded value into a bound's text."""


def _number(_: Column, text: str) -> str:
    # Never an exponent in a DECIMAL: with one, SQL takes it for a DOUBLE.
    return f"{Decimal(text):f}" if "e" not in text.lower() else repr(float(text))


def _quoted(_: Column, text: str) -> str:
    return f"'{text}'"


def _typed(name: str) -> Callable[[Column, str], str]:
    return lambda column, text: f"CAST('{text}' AS {name.format(column.fraction)})"


def _bytes(_: Column, text: str) -> str:
    return f"x'{text}'"


def _text(column: Column, text: str) -> str:
    return f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {column.charset}) COLLATE {column.collation}"


def _bits(column: Column, text: str) -> Any:
    return int(text) != 0 if column.precision == 1 else int(text).to_bytes((column.precision + 7) // 8, "big")


_INTEGER = Order("{}", _number, lambda _, text: int(text))
_DECIMAL = Order("{}", _number, lambda _, text: Decimal(text), lambda value: f"{Decimal(value):f}")
# A FLOAT of seven digits is another number than the stored one.
_FLOAT = Order("CAST({} AS DOUBLE)", _number, lambda _, text: float(text))
# Not strftime, which writes the year 999 in three digits.
_MOMENT = Order(
    "CAST({} AS CHAR)",
    _quoted,
    lambda _, text: datetime.fromisoformat(text),
    lambda value: value.replace(tzinfo=None).isoformat(" ", "microseconds"),
)
_BINARY = Order("HEX({})", _bytes, lambda _, text: bytes.fromhex(text), lambda value: value.hex().upper())
ORDERS: dict[str, Order] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _INTEGER),
    "decimal": _DECIMAL,
    "bit": Order(
        "{}+0",
        _number,
        _bits,
        lambda value: str(int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)),
    ),
    **dict.fromkeys(("float", "double"), _FLOAT),
    "date": Order("CAST({} AS CHAR)", _quoted, lambda _, text: date.fromisoformat(text)),
    "datetime": _MOMENT,
    "timestamp": _MOMENT,
    "time": Order("CAST({} AS CHAR)", _typed("TIME({})")),
    **dict.fromkeys(("binary", "varbinary"), _BINARY),
    **dict.fromkeys(("char", "varchar"), Order("HEX(CONVERT({} USING utf8mb4))", _text)),
    **{name: Order("CAST({} AS CHAR)", _typed(name.upper())) for name in ("uuid", "inet4", "inet6")},
}
"""Types by which a table can be cut. Not ENUM and SET: the servers read no range of an index on them."""


@dataclass(frozen=True)
class ChunkKey:
    """The columns a table is cut by, in the order of the index that reads their ranges. Only the first one may be nullable."""

    columns: tuple[Column, ...]
    index: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def literal(self, place: int, text: str) -> str:
        """A bound's text for column number `place`, as SQL."""
        return order_of(self.columns[place]).literal(self.columns[place], text)


def order_of(column: Column) -> Order:
    """How a column's values are written."""
    return ORDERS[column.type]


def fetched(column: Column, value: Any) -> str:
    """A value as `Order.select` fetches it, as a bound's text. Raises ValueError for a text with a surrogate, which is none."""
    if column.type in ("char", "varchar"):
        return bytes.fromhex(value).decode()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def scalar(column: Column, text: str) -> pa.Scalar | None:
    """A bound's text as an Arrow scalar of the column's type (FLOAT: double); None where only the server may compare."""
    order, type_ = order_of(column), value_type(column).arrow(column)
    if order.scalar is None or (column.type == "decimal" and pa.types.is_string(type_)):
        return None
    return pa.scalar(order.scalar(column, text), pa.float64() if pa.types.is_floating(type_) else type_)


def bound_at(key: ChunkKey, rows: pa.Table, row: int) -> Bound | None:
    """The key of one decoded row, as a bound; None for one that cannot be one: NULL, or a text that may not lead back to it."""
    values = [rows[column.name][row].as_py() for column in key.columns]
    if None in values:
        return None
    bound = tuple(order_of(column).text(value) for column, value in zip(key.columns, values, strict=True))
    return None if any(map(doubtful, key.columns, bound)) else bound


def recoverable(column: Column) -> str:
    """SQL that is false for a value whose text does not lead back to it; empty where all do."""
    if column.charset is None or column.charset.startswith("utf8"):
        return ""
    name = quote(column.name)
    return f"HEX({name}) = HEX(CONVERT(CONVERT({name} USING utf8mb4) USING {column.charset}))"


def doubtful(column: Column, text: str) -> bool:
    """Whether a text may stand for a code without a character."""
    return bool(recoverable(column)) and ("?" in text or "\ufffd" in text)


def why_unordered(column: Column) -> str:
    """Why a table cannot be cut by a column, in plain words; empty when it can."""
    if column.type not in ORDERS:
        return f"no range of an index on {column.type.upper()} can be read"
    if column.type == "char" and "_nopad_" in (column.collation or ""):
        return f"CHAR in {column.collation} is ordered otherwise in an index than in a condition"
    if column.charset in SEVERAL_CODES:
        return f"in the character set {column.charset} one character has several codes"
    if column.null_dates:
        return "its dates that do not exist become NULL, which hides where their rows belong"
    return ""


def own_key(table: Table) -> ChunkKey | None:
    """The table's identity as a chunk key, as far as its columns can be ordered; None when not even the first can."""
    for index in table.indexes:
        if table.key and table.key[: len(index.columns)] == index.columns:
            return _ordered(table, index.columns, index.name)
    return None


def configured_key(table: Table, name: str) -> ChunkKey:
    """The chunk key that begins with the column `name`, continued over its index and the table's identity.

    InnoDB's secondary indexes hold the identity behind their own columns, so ranges over both are ranges of the index. Raises
    SpecError when there is no such column, it cannot be ordered, or no index begins with it.
    """
    by_name = {column.name: column for column in table.columns}
    if name not in by_name:
        raise _refused(table, name, "which the table does not have", f"Its columns: {', '.join(by_name)}.")
    if reason := why_unordered(by_name[name]):
        raise _refused(table, name, f"by which it cannot be cut: {reason}", "Choose another column.")
    fitting = [index for index in table.indexes if index.columns[0] == name]
    if not fitting:
        create = f"CREATE INDEX … ON {quote(table.database, table.name)} ({quote(name)});"
        hint = f"Choose a column with an index, or create one: {create}"
        raise _refused(table, name, "which no index begins with: every chunk would scan the whole table", hint)
    keys = [_ordered(table, _extended(table, index), index.name) for index in fitting]
    return max((key for key in keys if key), key=lambda key: (key.names == table.key, len(key.columns)))


def _extended(table: Table, index: Index) -> tuple[str, ...]:
    """The index's columns, and those that the engine keeps behind them, ascending."""
    return index.columns if index.descending else tuple(dict.fromkeys([*index.columns, *table.clustered]))


def _ordered(table: Table, names: Sequence[str], index: str) -> ChunkKey | None:
    """The first columns of `names` that can be ordered; behind the first one no nullable column."""
    columns: list[Column] = []
    for column in map(table.column, names):
        if why_unordered(column) or (columns and column.nullable):
            break
        columns.append(column)
    return ChunkKey(tuple(columns), index) if columns else None


def _refused(table: Table, name: str, why: str, hint: str) -> SpecError:
    return SpecError(
        f"The chunk key of {table.full_name} is to be {name!r}, {why}.", detail="Nothing was started.", hint=hint
    )
