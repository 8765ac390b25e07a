"""Converts a cursor's rows to dataclasses. Times are aware, in UTC."""

from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

import duckdb

Cursor = duckdb.DuckDBPyConnection
Result = TypeVar("Result")
T = TypeVar("T")
P = ParamSpec("P")


def fetch(
    cursor: Cursor, kind: Callable[..., Result], sql: str, parameters: Mapping[str, object] | None = None
) -> list[Result]:
    """One `kind` per row, called with the columns in order."""
    cursor.execute(sql, dict(parameters or {}))
    times = [n for n, column in enumerate(cursor.description or ()) if str(column[1]).startswith("TIMESTAMP")]
    results = []
    for row in cursor.fetchall():
        values = list(row)
        for n in times:
            values[n] = aware(values[n])
        results.append(kind(*values))
    return results


def part(cursor: Cursor, query: Callable[Concatenate[Cursor, P], T], *args: P.args, **options: P.kwargs) -> T:
    """The answer of a query that is a part of another one.

    `History.ask` keeps it by itself, as long as it is current.
    """
    ask = getattr(cursor, "ask", None)
    return ask(query, *args, **options) if ask else query(cursor, *args, **options)


def memory(cursor: Cursor, key: Hashable) -> dict[Any, Any]:
    """The dictionary that a query has filled before, if `History.ask` asks it; cleared when rows are deleted."""
    memory_of = getattr(cursor, "memory", None)
    return memory_of(key) if memory_of else {}


def fetch_one(
    cursor: Cursor, kind: Callable[..., Result], sql: str, parameters: Mapping[str, object] | None = None
) -> Result | None:
    """The first row as a `kind`, or None."""
    results = fetch(cursor, kind, sql, parameters)
    return results[0] if results else None


def aware(value: Any) -> Any:
    """A naive time as UTC; other values unchanged."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def naive(value: datetime) -> datetime:
    """The inverse of `aware`, for parameters."""
    return value.astimezone(UTC).replace(tzinfo=None)
