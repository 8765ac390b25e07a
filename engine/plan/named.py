"""Keys and bounds named by a user: validates them before they become SQL, and converts them to Arrow.

A plan's own bounds come from the server. These come from a command line or a file. So a text that is no value of its
column's type is refused, and so is any text that could be read as something other than a value.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from math import isfinite

import pyarrow as pa

from engine.base.errors import SpecError
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import Column, Table
from engine.plan.chunks import Range
from engine.plan.keys import ORDERS, SEVERAL_CODES, Bound, ChunkKey, order_of, scalar
from engine.plan.places import Ask
from engine.source.connect import quote

_PLAIN = re.compile(r"[-+0-9A-Za-z:. ]+")
"""The characters in texts of TIME, UUID and addresses."""


def check_keys(table: Table, keys: Sequence[Bound]) -> None:
    """Raises SpecError for keys that cannot identify rows of the table."""
    if not table.key:
        raise _refused(table, "it has no key that identifies its rows")
    for column in map(table.column, table.key):
        if column.type not in ORDERS or column.type in ("float", "double") or column.charset in SEVERAL_CODES:
            raise _refused(table, f"a value of {column.name!r} ({column.type.upper()}) cannot be named exactly")
    for key in keys:
        if len(key) != len(table.key):
            raise _refused(table, f"{list(key)} is not a key of ({', '.join(table.key)})")
        _check(table, [table.column(name) for name in table.key], key)


def check_range(table: Table, key: ChunkKey, limits: Range, ask: Ask) -> None:
    """Raises SpecError for an invalid range of the chunk key: wrong types, or empty."""
    for bound in (limits.lower, limits.upper):
        if bound is not None:
            if not 0 < len(bound) <= len(key.columns):
                raise _refused(table, f"{list(bound)} is not a bound of ({', '.join(key.names)})")
            _check(table, key.columns, bound)
    if limits.lower is not None and limits.upper is not None and not _less(key, limits.lower, limits.upper, ask):
        raise _refused(table, f"the range from {list(limits.lower)} to {list(limits.upper)} is empty")


def having(table: Table, keys: Sequence[Bound]) -> str:
    """The SQL condition of the rows with these identities, which have been validated."""
    columns = [table.column(name) for name in table.key]
    literals = [[order_of(c).literal(c, text) for c, text in zip(columns, key, strict=True)] for key in keys]
    if len(columns) == 1:
        return f"{quote(columns[0].name)} IN ({', '.join(literal for (literal,) in literals)})"
    names = [quote(column.name) for column in columns]
    ways = (" AND ".join(f"{n} = {v}" for n, v in zip(names, row, strict=True)) for row in literals)
    return "(" + " OR ".join(f"({way})" for way in ways) + ")"


def identities(table: Table, keys: Sequence[Bound]) -> pa.Table:
    """The keys as a table of the identity's columns, with values as in decoded rows."""
    schema = pa.schema([image_schema(table).field(name) for name in table.key])
    columns = [
        pa.array([_value(table.column(name), key[n]) for key in keys], schema.field(name).type)
        for n, name in enumerate(table.key)
    ]
    return pa.table(columns, schema=schema)


def _value(column: Column, text: str) -> object:
    value = scalar(column, text)
    return text if value is None else value.as_py()


def _check(table: Table, columns: Sequence[Column], texts: Bound) -> None:
    for column, text in zip(columns, texts, strict=False):
        if not _is_value(column, text):
            raise _refused(table, f"{text!r} is not a value of {column.name!r} ({column.type.upper()})")


def _is_value(column: Column, text: str) -> bool:
    order = order_of(column)
    if order.scalar is None:
        return column.charset is not None or _PLAIN.fullmatch(text) is not None
    try:
        value = order.scalar(column, text)
        order.literal(column, text)
    except (ValueError, InvalidOperation, OverflowError):
        return False
    if isinstance(value, datetime):
        return value.tzinfo is None
    return not isinstance(value, Decimal | float) or isfinite(value)


def _less(key: ChunkKey, lower: Bound, upper: Bound, ask: Ask) -> bool:
    for column, low, high in zip(key.columns, lower, upper, strict=False):
        one, other = scalar(column, low), scalar(column, high)
        if one is None or other is None:
            sign = int(ask(column, [low], [high])[0, 0])
        else:
            sign = (one.as_py() > other.as_py()) - (one.as_py() < other.as_py())
        if sign:
            return sign < 0
    return len(lower) < len(upper)


def _refused(table: Table, why: str) -> SpecError:
    return SpecError(
        f"{table.full_name}: {why}.",
        detail="Nothing was read again.",
        hint="Write values as `plan --json` does: binaries in hexadecimal, times in UTC, "
        "keys of several columns as JSON lists.",
    )
