"""Walks a key: the server finds where each chunk ends (docs/architecture.md).

By the published rule, a bound is the last of `rows` keys counted from the previous bound, so the chunk has one row
less. If that is the previous bound itself, because so many rows share a key, the next larger key is used. The walk ends
at the largest key. Each statement reads one range of the key's index, of at most one chunk, and finishes when it has
answered.
"""

from collections.abc import Sequence

from engine.base.errors import TableStoppedError, if_captured
from engine.decode.schema import Table
from engine.plan.chunks import Range, after_bound, predicate
from engine.plan.keys import Bound, ChunkKey, fetched, order_of, recoverable, scalar
from engine.source.connect import Connection, query, quote


def next_bound(connection: Connection, table: Table, key: ChunkKey, limits: Range, rows: int) -> Bound | None:
    """The upper bound of the first chunk of about `rows` rows in the range; None if the range has at most one chunk."""
    whole = limits.lower is None or len(limits.lower) == len(key.columns)
    # A bound with fewer columns is not a key: one more row ensures that the next bound is after it.
    offset = rows - 1 if whole else max(rows - 1, 1)
    bound, beyond = _key_at(connection, table, key, limits, offset)
    if bound is None:
        return None
    if not beyond and limits.lower is not None:
        bound, _ = _key_at(connection, table, key, Range(limits.lower, limits.upper), 0, strictly=True)
        if bound is None:
            return None
    return bound if _key_at(connection, table, key, Range(bound, limits.upper), 0, strictly=True)[0] else None


def key_statement(table: Table, key: ChunkKey, limits: Range, offset: int, *, strictly: bool = False) -> str:
    """The statement that fetches the key `offset` keys after the range's first.

    Also returns whether that key is above the lower bound.

    strictly: skip keys equal to the lower bound.
    """
    selects = [f"{order_of(c).select.format(quote(c.name))} AS k{n}" for n, c in enumerate(key.columns)]
    whole = limits.lower is not None and len(limits.lower) == len(key.columns)
    beyond = after_bound(key, limits.lower) if whole and limits.lower is not None else "TRUE"
    conditions = [predicate(key, limits)]
    if strictly and limits.lower is not None:
        conditions = [after_bound(key, limits.lower), predicate(key, Range(None, limits.upper))]
    if key.columns[0].nullable:
        conditions.append(f"{quote(key.columns[0].name)} IS NOT NULL")
    where = " AND ".join(condition for condition in conditions if condition)
    exact = " AND ".join(filter(None, map(recoverable, key.columns))) or "TRUE"
    return (
        f"SELECT {', '.join([*selects, f'{exact} AS exact', f'{beyond} AS beyond'])} FROM "
        f"{quote(table.database, table.name)} AS t FORCE INDEX "
        f"({quote(key.index)}){' WHERE ' + where if where else ''} ORDER BY "
        f"{', '.join(quote('t', name) for name in key.names)} LIMIT 1 OFFSET {offset}"
    )


def _key_at(
    connection: Connection, table: Table, key: ChunkKey, limits: Range, offset: int, *, strictly: bool = False
) -> tuple[Bound | None, bool]:
    statement = key_statement(table, key, limits, offset, strictly=strictly)
    rows = query(connection, statement)
    if not rows:
        return None, False
    *values, exact, beyond = rows[0].values()
    bound = bound_of(table, key, values)
    if not exact:
        raise TableStoppedError(
            f"{table.full_name}: its key {', '.join(bound)} contains a code that its character set does not define.",
            detail="The order of such keys is unknown, so the table is not copied.",
            hint=f"Correct the value in the source, or exclude the table. {if_captured(table.full_name)}",
        )
    return bound, bool(beyond)


def bound_of(table: Table, key: ChunkKey, values: Sequence[object]) -> Bound:
    """Fetched values as a bound. Raises TableStoppedError for an invalid date or an invalid text."""
    bound = []
    for column, value in zip(key.columns, values, strict=False):
        try:
            bound.append(fetched(column, value))
            scalar(column, bound[-1])
        except ValueError:
            raise TableStoppedError(
                f"{table.full_name}: its key {column.name} contains {value}, an invalid date or a text with "
                "surrogates.",
                detail="Keys identify rows, so they are never changed to NULL; the table is not copied.",
                hint=f"Correct the value in the source, or exclude the table. {if_captured(table.full_name)}",
            ) from None
    return tuple(bound)


def key_ends(connection: Connection, table: Table, key: ChunkKey) -> list[str | None]:
    """The minimum and maximum of the key's first column as texts, None if there are no values.

    Takes two dives into its index.

    Not with MIN and MAX: on a descending index they read all of it.
    """
    column = key.columns[0]
    name = quote("t", column.name)
    ends: list[str | None] = []
    for direction in ("", " DESC"):
        rows = query(
            connection,
            f"SELECT {order_of(column).select.format(name)} AS k FROM {quote(table.database, table.name)} AS t "
            f"FORCE INDEX ({quote(key.index)}){f' WHERE {name} IS NOT NULL' if column.nullable else ''} "
            f"ORDER BY {name}{direction} LIMIT 1",
        )
        ends.append(bound_of(table, key, [rows[0]["k"]])[0] if rows else None)
    return ends
