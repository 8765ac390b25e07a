"""How a table is split, and why: Flink CDC's rules for one column, and our additions (docs/architecture.md). Pure.

A numeric key whose distribution factor is within its bounds is split evenly, by arithmetic alone. Any other ordered key
is walked: each bound is the last of the next `chunk_rows` keys. A table without an ordered key, or that fits one chunk,
is one chunk.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from engine.decode.schema import Table
from engine.plan.chunks import Plan, Strategy
from engine.plan.keys import EXACT, ChunkKey, configured_key, own_key, why_unordered
from engine.source.catalog import Statistics
from engine.spec.settings import Snapshot, TableRules

NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_MAX_ROWS = 5_000_000
"""The maximum of planned rows per chunk, however short they are."""
_FACTOR_SCALE = 10_000


@dataclass(frozen=True)
class KeyEnds:
    """The minimum and maximum of a chunk key's first column, as bounds' texts; None if the table has no values."""

    minimum: str | None
    maximum: str | None


def chunk_key(table: Table, settings: Snapshot) -> ChunkKey | None:
    """The configured chunk key, else the identity's. Raises SpecError for an unsuitable configured column."""
    configured = settings.rules(table.database, table.name).key
    return own_key(table) if configured is None else configured_key(table, configured)


def chunk_rows(rules: TableRules, row_bytes: int) -> int:
    """Rows per chunk: as configured, else as many as fit the target in bytes."""
    if rules.chunk_rows:
        return rules.chunk_rows
    return max(1, min((rules.target_bytes or 1) // max(row_bytes, 1), _MAX_ROWS))


def distribution_factor(minimum: Decimal | int, maximum: Decimal | int, rows: int) -> float:
    """`(max - min + 1) / rows`, rounded up to four decimals (the published rule); infinite for no rows."""
    if not rows:
        return math.inf
    span = Fraction(maximum) - Fraction(minimum) + 1
    return math.ceil(span * _FACTOR_SCALE / rows) / _FACTOR_SCALE


def decide(table: Table, estimate: Statistics, ends: KeyEnds | None, settings: Snapshot) -> Plan:
    """The plan of one table. ends: None if not fetched; the plan is then what the statistics alone suggest."""
    key, rules = chunk_key(table, settings), settings.rules(table.database, table.name)
    size = chunk_rows(rules, estimate.row_bytes)
    if key is None or (why_one := _one(key, estimate, ends, size)):
        return _plan(table, key, estimate, ends, size, "one", f"one chunk: {why_one if key else _no_key(table)}")
    first = key.columns[0]
    if first.type not in NUMBERS:
        why = f"the key {first.name} is {first.type.upper()}, which the server walks"
        return _walked(table, key, estimate, ends, size, why)
    if ends is None:
        return _expected(table, key, estimate, size)
    return _numeric(table, key, estimate, ends, rules, size)


def _one(key: ChunkKey, estimate: Statistics, ends: KeyEnds | None, size: int) -> str:
    """Why a table with a chunk key is one chunk; empty if it is not."""
    if ends is not None and ends.minimum is None and not key.columns[0].nullable:
        return "the table is empty"
    if 0 < estimate.rows <= size:
        return f"about {estimate.rows} rows fit one chunk of {size}"
    if ends is not None and ends.minimum == ends.maximum and len(key.columns) == 1:
        return "all rows have the same key"
    return ""


def _numeric(table: Table, key: ChunkKey, estimate: Statistics, ends: KeyEnds, rules: TableRules, size: int) -> Plan:
    """The plan for a numeric first column: even if its distribution factor allows it."""
    low, high = Decimal(ends.minimum or 0), Decimal(ends.maximum or 0)
    factor = distribution_factor(low, high, estimate.rows)
    lower, upper = rules.even_factor_lower or 0.0, rules.even_factor_upper or math.inf
    bounds = f"{lower:g}–{upper:g}"
    if not lower <= factor <= upper:
        why = (
            f"the distribution factor {factor:g} is outside {bounds}" if estimate.rows else "no statistics of its rows"
        )
        return _walked(table, key, estimate, ends, size, why, factor)
    step = max(int(factor * size), 1)
    chunks = int(EXACT.subtract(high, low) // step) + 1
    reason = f"number key, distribution factor {factor:g} within {bounds}, about {size} rows a chunk"
    return Plan(
        table.full_name,
        estimate.rows,
        estimate.data_bytes,
        key.names,
        key.index,
        ends.minimum,
        ends.maximum,
        factor,
        "even",
        reason,
        size,
        chunks,
        f"{EXACT.add(low, step):f}",
        str(step),
    )


def _walked(
    table: Table,
    key: ChunkKey,
    estimate: Statistics,
    ends: KeyEnds | None,
    size: int,
    why: str,
    factor: float | None = None,
) -> Plan:
    coarse = f", by {', '.join(key.names)}" if len(key.columns) > 1 else ""
    reason = f"walked{coarse}: {why}, {size} rows a chunk"
    return _plan(table, key, estimate, ends, size, "uneven", reason, factor)


def _expected(table: Table, key: ChunkKey, estimate: Statistics, size: int) -> Plan:
    reason = f"number key: even if its distribution factor allows it, else walked; about {size} rows a chunk"
    return _plan(table, key, estimate, None, size, "even", reason)


def _no_key(table: Table) -> str:
    if not table.key:
        return "no primary key and no unique key without nullable columns, so it is published to its change log only"
    if reason := why_unordered(table.column(table.key[0])):
        return f"its key begins with {table.key[0]}, and {reason}"
    return "no index reads ranges of its key"


def _plan(
    table: Table,
    key: ChunkKey | None,
    estimate: Statistics,
    ends: KeyEnds | None,
    size: int,
    strategy: Strategy,
    reason: str,
    factor: float | None = None,
) -> Plan:
    low, high = (ends.minimum, ends.maximum) if ends else (None, None)
    finite_factor = factor if factor is None or math.isfinite(factor) else None
    if strategy == "one" and key is not None and low is not None and key.columns[0].type in NUMBERS and estimate.rows:
        finite_factor = distribution_factor(Decimal(low), Decimal(high or low), estimate.rows)
    chunks = 1 if strategy == "one" else max(-(-estimate.rows // size), 1)
    names, index = (key.names, key.index) if key else ((), "")
    return Plan(
        table.full_name,
        estimate.rows,
        estimate.data_bytes,
        names,
        index,
        low,
        high,
        finite_factor,
        strategy,
        reason,
        size,
        chunks,
    )
