"""Walking a key: the server finds where each chunk ends (docs/architecture.md).

A bound is the last of the next `rows` keys from the one before, as the published rule has it: the chunk holds one row less. Where
that is the bound before itself, because so many rows share a key, it is the next larger key. The walk ends at the largest key.
Each statement reads one range of the key's index and no more than a chunk of it, and each is over when it has answered.
"""

from collections.abc import Sequence

from engine.decode.schema import Table
from engine.errors import TableStoppedError
from engine.plan.chunks import Range, behind, predicate
from engine.plan.keys import Bound, ChunkKey, fetched, order_of, recoverable, scalar
from engine.source.connect import Connection, query, quote


def next_bound(connection: Connection, table: Table, key: ChunkKey, limits: Range, rows: int) -> Bound | None:
    """Where a chunk of about `rows` rows ends that begins with the range; None when the range holds no more than one chunk."""
    whole = limits.lower is None or len(limits.lower) == len(key.columns)
    # A bound of fewer columns is no key: one more row makes sure that the next one lies behind it.
    offset = rows - 1 if whole else max(rows - 1, 1)
    found, beyond = _key_at(connection, table, key, limits, offset)
    if found is None:
        return None
    if not beyond and limits.lower is not None:
        found, _ = _key_at(connection, table, key, Range(limits.lower, limits.upper), 0, strictly=True)
        if found is None:
            return None
    return found if _key_at(connection, table, key, Range(found, limits.upper), 0, strictly=True)[0] else None


def key_statement(table: Table, key: ChunkKey, limits: Range, offset: int, *, strictly: bool = False) -> str:
    """The statement for the key that is `offset` keys behind the first of a range, and whether it is larger than its lower bound.

    strictly: keys equal to the lower bound are left out.
    """
    selects = [f"{order_of(c).select.format(quote(c.name))} AS k{n}" for n, c in enumerate(key.columns)]
    whole = limits.lower is not None and len(limits.lower) == len(key.columns)
    beyond = behind(key, limits.lower) if whole and limits.lower is not None else "TRUE"
    conditions = [predicate(key, limits)]
    if strictly and limits.lower is not None:
        conditions = [behind(key, limits.lower), predicate(key, Range(None, limits.upper))]
    if key.columns[0].nullable:
        conditions.append(f"{quote(key.columns[0].name)} IS NOT NULL")
    where = " AND ".join(condition for condition in conditions if condition)
    exact = " AND ".join(filter(None, map(recoverable, key.columns))) or "TRUE"
    return (
        f"SELECT {', '.join([*selects, f'{exact} AS exact', f'{beyond} AS beyond'])} FROM {quote(table.database, table.name)} AS t "
        f"FORCE INDEX ({quote(key.index)}){' WHERE ' + where if where else ''} "
        f"ORDER BY {', '.join(quote('t', name) for name in key.names)} LIMIT 1 OFFSET {offset}"
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
            f"{table.full_name}: its key {', '.join(bound)} holds a code that its character set has no character for.",
            detail="The order of such keys is not known, so the table is not copied.",
            hint="Correct the value in the source, or exclude the table.",
        )
    return bound, bool(beyond)


def bound_of(table: Table, key: ChunkKey, values: Sequence[object]) -> Bound:
    """Fetched values as a bound. Raises TableStoppedError for a date that does not exist and a text that is none."""
    bound = []
    for column, value in zip(key.columns, values, strict=False):
        try:
            bound.append(fetched(column, value))
            scalar(column, bound[-1])
        except ValueError:
            raise TableStoppedError(
                f"{table.full_name}: its key {column.name} holds {value}, a date that does not exist or a text with surrogates.",
                detail="Keys tell rows apart and are never changed to NULL, so the table is not copied.",
                hint="Correct the value in the source, or exclude the table.",
            ) from None
    return tuple(bound)


def key_ends(connection: Connection, table: Table, key: ChunkKey) -> list[str | None]:
    """The smallest and the largest value of the key's first column as texts, None without any; two dives into its index.

    Not by MIN and MAX: of a descending index they read all.
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
