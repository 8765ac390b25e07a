"""Which chunks a table is cut into: the published rules, with their reasons said (DESIGN 6).

Integer keys with a distribution factor within its bounds are cut evenly, by arithmetic alone. Everything else is one chunk in this
version.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.decode.schema import Table
from engine.errors import SpecError
from engine.plan.chunks import Plan
from engine.settings import Snapshot
from engine.source.catalog import Statistics, statistics
from engine.source.connect import Connection, query, quote

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_MAX_ROWS = 5_000_000
"""A chunk never has more rows than this by plan, however short they are."""
_FACTOR_SCALE = 10_000


@dataclass(frozen=True)
class Extent:
    """What the server says of a table's chunk key: rows (an estimate), smallest and largest key."""

    rows: int
    minimum: int | None
    maximum: int | None


def chunk_key(table: Table, settings: Snapshot) -> str | None:
    """The configured column, else the first of the table's key. Raises SpecError for a configured column that does not exist."""
    configured = settings.chunk_key.get(table.full_name)
    if configured is None:
        return table.key[0] if table.key else None
    if configured not in {column.name for column in table.columns}:
        raise SpecError(
            f"snapshot.chunk_key names column {configured!r}, which {table.full_name} does not have.",
            hint=f"Its columns: {', '.join(column.name for column in table.columns)}.",
        )
    if configured not in table.key[:1]:
        raise SpecError(
            f"snapshot.chunk_key names column {configured!r} of {table.full_name}; this version cuts only by the first "
            "column of the key.",
            hint=f"Remove the setting, or use {table.key[0]!r}." if table.key else "Remove the setting.",
        )
    return configured


def chunk_rows(settings: Snapshot, row_bytes: int) -> int:
    """Rows a chunk: as configured, else as many as fit the target in bytes."""
    if settings.chunk_rows:
        return settings.chunk_rows
    return max(1, min(settings.target_bytes // max(row_bytes, 1), _MAX_ROWS))


def distribution_factor(minimum: int, maximum: int, rows: int) -> float:
    """`(max - min + 1) / rows`, at four digits, rounded up (the published rule); infinite for no rows."""
    if not rows:
        return math.inf
    return -(-(maximum - minimum + 1) * _FACTOR_SCALE // rows) / _FACTOR_SCALE


def even_bounds(minimum: int, maximum: int, factor: float, rows: int) -> Iterator[int]:
    """`min + step, min + 2·step … ≤ max` with step `max(int(factor · rows), 1)`."""
    step = max(int(factor * rows), 1)
    return iter(range(minimum + step, maximum + 1, step))


def plan_table(connection: Connection, table: Table, settings: Snapshot) -> Plan:
    """The plan of one table from the server's statistics and the two ends of its key."""
    estimate = statistics(connection, table)
    key = chunk_key(table, settings)
    if key is None:
        return _one(table, estimate.rows, (), None, "no primary key and no unique key without nullable columns")
    if table.column(key).type not in _INTEGERS:
        reason = f"the chunk key {key} is {table.column(key).type.upper()}, which this version does not cut"
        return _one(table, estimate.rows, (key,), None, reason)
    return plan_integers(table, key, _extent(connection, table, key, estimate), settings, estimate.row_bytes)


def _extent(connection: Connection, table: Table, key: str, estimate: Statistics) -> Extent:
    column = quote(key)
    (row,) = query(
        connection, f"SELECT MIN({column}) AS low, MAX({column}) AS high FROM {quote(table.database, table.name)}"
    )
    rows = estimate.rows
    if not rows and row["low"] is not None:
        # The statistics of a table that was filled a moment ago say 0: counting a range of the index is the way to know.
        rows = int(query(connection, f"SELECT COUNT(*) AS n FROM {quote(table.database, table.name)}")[0]["n"])
    return Extent(rows, row["low"], row["high"])


def plan_integers(table: Table, key: str, extent: Extent, settings: Snapshot, row_bytes: int) -> Plan:
    """The plan of a table with an integer chunk key; pure."""
    low, high = extent.minimum, extent.maximum
    size = chunk_rows(settings, row_bytes)
    if low is None or high is None:
        return _one(table, 0, (key,), extent, "the table is empty")
    factor = distribution_factor(low, high, extent.rows)
    bounds = f"{settings.even_factor_lower:g}–{settings.even_factor_upper:g}"
    if extent.rows <= size:
        return _one(table, extent.rows, (key,), extent, f"about {extent.rows} rows fit one chunk of {size}", factor)
    if low == high:
        return _one(table, extent.rows, (key,), extent, "all rows have the same key", factor)
    if not settings.even_factor_lower <= factor <= settings.even_factor_upper:
        return _one(
            table, extent.rows, (key,), extent, f"the distribution factor {factor:g} is outside {bounds}", factor
        )
    reason = f"integer key, distribution factor {factor:g} within {bounds}, about {size} rows a chunk"
    cuts = tuple(even_bounds(low, high, factor, size))
    return Plan(table.full_name, extent.rows, (key,), str(low), str(high), factor, "even", reason, cuts)


def _one(
    table: Table, rows: int, key: tuple[str, ...], extent: Extent | None, reason: str, factor: float | None = None
) -> Plan:
    low, high = (extent.minimum, extent.maximum) if extent else (None, None)
    ends = (None if low is None else str(low), None if high is None else str(high))
    shown = factor if factor is None or math.isfinite(factor) else None
    return Plan(table.full_name, rows, key, *ends, shown, "one", f"one chunk: {reason}", ())
