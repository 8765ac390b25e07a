"""Chunk keys: the columns that split a table, and how their values are written in SQL and in plans.

A bound is a tuple of texts, one for each of the first columns of the key: `("7",)` is before all keys whose first
column is 7 or more. A bound need not be an existing key. But everyone must compare with it alike: the predicates of
chunks on the server, and whoever places a change among chunks. So each type defines how a bound's text becomes SQL, and
how it becomes an Arrow scalar if Arrow compares as the server does. If it has no scalar, only the server may compare
(docs/architecture.md).

To place a text, the server converts it from Unicode back into the column's character set. In five character sets
several codes are the same character, so the way back is ambiguous, and a key in them is not ordered here. Codes without
any character, which the servers show as "?", stop a table if its key has one: in a bound (`walk`), or in a row image
(`decode.types.strings`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from engine.base.errors import SpecError
from engine.decode.schema import Column, Index, Table
from engine.source.connect import quote

if TYPE_CHECKING:
    import pyarrow as pa

Bound = tuple[str, ...]
SEVERAL_CODES = frozenset({"armscii8", "cp932", "eucjpms", "sjis", "ujis"})
"""Character sets in which one character has several codes."""
EXACT = Context(prec=100)
"""Arithmetic on DECIMALs of up to 65 digits; Python's default context rounds at 28."""


@dataclass(frozen=True)
class Order:
    """How a type's values are written. In the templates, `{}` is the quoted column or the text."""

    select: str
    """The SQL expression that fetches a value."""
    literal: Callable[[Column, str], str]
    """Converts a bound's text to SQL."""
    scalar: Callable[[Column, str], Any] | None = None
    """Converts a text to a value that Arrow compares as the server does; None if only the server can compare."""
    text: Callable[[Any], str] = str
    """Converts a decoded value to a bound's text."""


def _number(_: Column, text: str) -> str:
    # A DECIMAL must not have an exponent: SQL would take it for a DOUBLE.
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
# A FLOAT printed with seven digits is not the stored number.
_FLOAT = Order("CAST({} AS DOUBLE)", _number, lambda _, text: float(text))
# Not strftime: it writes the year 999 with three digits.
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
"""Types that can split a table. Not ENUM and SET: the servers cannot read a range of an index on them."""


@dataclass(frozen=True)
class ChunkKey:
    """The columns that split a table, in the order of the index that reads their ranges.

    Only the first may be nullable.
    """

    columns: tuple[Column, ...]
    index: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def literal(self, place: int, text: str) -> str:
        """A bound's text for column number `place`, as SQL."""
        return order_of(self.columns[place]).literal(self.columns[place], text)


def order_of(column: Column) -> Order:
    """How the column's values are written."""
    return ORDERS[column.type]


def fetched(column: Column, value: Any) -> str:
    """Convert a value fetched by `Order.select` to a bound's text. Raises ValueError for a text with surrogates."""
    if column.type in ("char", "varchar"):
        return bytes.fromhex(value).decode()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def scalar(column: Column, text: str) -> "pa.Scalar | None":
    """A bound's text as an Arrow scalar of the column's type (FLOAT: double); None if only the server may compare."""
    import pyarrow as pa

    from engine.decode.types import value_type

    order, type_ = order_of(column), value_type(column).arrow(column)
    if order.scalar is None or (column.type == "decimal" and pa.types.is_string(type_)):
        return None
    return pa.scalar(order.scalar(column, text), pa.float64() if pa.types.is_floating(type_) else type_)


def bound_at(key: ChunkKey, rows: "pa.Table", row: int) -> Bound | None:
    """The key of one decoded row as a bound.

    None if it cannot be one: it is NULL, or its text may not convert back to it.
    """
    values = [rows[column.name][row].as_py() for column in key.columns]
    if None in values:
        return None
    bound = tuple(order_of(column).text(value) for column, value in zip(key.columns, values, strict=True))
    return None if any(map(is_ambiguous, key.columns, bound)) else bound


def recoverable(column: Column) -> str:
    """SQL that is false for values whose text does not convert back to them; empty if all texts do."""
    if column.charset is None or column.charset.startswith("utf8"):
        return ""
    name = quote(column.name)
    return f"HEX({name}) = HEX(CONVERT(CONVERT({name} USING utf8mb4) USING {column.charset}))"


def is_ambiguous(column: Column, text: str) -> bool:
    """Whether a text may stand for a code without a character."""
    return bool(recoverable(column)) and ("?" in text or "\ufffd" in text)


def why_unordered(column: Column) -> str:
    """Why a column cannot split its table, in plain words; empty if it can."""
    if column.type not in ORDERS:
        return f"no range of an index on {column.type.upper()} can be read"
    if column.type == "char" and "_nopad_" in (column.collation or ""):
        return f"CHAR in {column.collation} is ordered otherwise in an index than in a condition"
    if column.charset in SEVERAL_CODES:
        return f"in the character set {column.charset} one character has several codes"
    if column.null_dates:
        return "its invalid dates become NULL, which hides where their rows belong"
    return ""


def own_key(table: Table) -> ChunkKey | None:
    """The table's identity as a chunk key, up to the first column that cannot be ordered; None if that is the first."""
    for index in table.indexes:
        if table.key and table.key[: len(index.columns)] == index.columns:
            return _ordered(table, index.columns, index.name)
    return None


def configured_key(table: Table, name: str) -> ChunkKey:
    """The chunk key that begins with column `name` and continues over its index and the table's identity.

    InnoDB's secondary indexes contain the identity after their own columns, so ranges over both are ranges of the
    index. Raises SpecError if the column does not exist, cannot be ordered, or no index begins with it.
    """
    by_name = {column.name: column for column in table.columns}
    if name not in by_name:
        raise _refused(table, name, "which the table does not have", f"Its columns: {', '.join(by_name)}.")
    if reason := why_unordered(by_name[name]):
        raise _refused(table, name, f"which cannot split it: {reason}", "Choose another column.")
    fitting = [index for index in table.indexes if index.columns[0] == name]
    if not fitting:
        create = f"CREATE INDEX … ON {quote(table.database, table.name)} ({quote(name)});"
        hint = f"Choose a column with an index, or create one: {create}"
        raise _refused(table, name, "which no index begins with: every chunk would scan the whole table", hint)
    keys = [_ordered(table, _extended(table, index), index.name) for index in fitting]
    return max((key for key in keys if key), key=lambda key: (key.names == table.key, len(key.columns)))


def _extended(table: Table, index: Index) -> tuple[str, ...]:
    """The index's columns, then those that the engine appends to them, ascending."""
    return index.columns if index.descending else tuple(dict.fromkeys([*index.columns, *table.clustered]))


def _ordered(table: Table, names: Sequence[str], index: str) -> ChunkKey | None:
    """The longest prefix of `names` whose columns can be ordered. Only its first column may be nullable."""
    columns: list[Column] = []
    for column in map(table.column, names):
        if why_unordered(column) or (columns and column.nullable):
            break
        columns.append(column)
    return ChunkKey(tuple(columns), index) if columns else None


def _refused(table: Table, name: str, why: str, hint: str) -> SpecError:
    return SpecError(
        f"The chunk key of {table.full_name} is set to {name!r}, {why}.", detail="Nothing was started.", hint=hint
    )
