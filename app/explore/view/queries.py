"""Example queries, and the time range in which a past state of a table can be queried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from app.common.view import words


@dataclass(frozen=True)
class KnownTable:
    """A published table in Explore: its names in SQL, and its columns."""

    full_name: str
    mirror: str
    """The name of the mirror, quoted for SQL."""
    changes: str
    """The name of the change log, quoted for SQL."""
    key: tuple[str, ...]
    """The columns of the primary key."""
    columns: tuple[str, ...]


def examples(table: KnownTable) -> dict[str, str]:
    """Example queries on a table, by title."""
    queries = {"How many rows there are": f"SELECT count(*) AS rows\nFROM {table.mirror}"} if table.key else {}
    queries |= {"Some rows": f"SELECT *\nFROM {table.mirror}\nLIMIT 100"} if table.key else {}
    return queries | {
        "The newest changes": f"SELECT *\nFROM {table.changes}\nORDER BY _tm_seq DESC\nLIMIT 100",
        "Changes a minute, by kind": (
            "SELECT date_trunc('minute', _tm_ts) AS minute, _tm_kind AS kind, count(*) AS changes\n"
            f"FROM {table.changes}\nGROUP BY ALL\nORDER BY minute DESC, kind"
        ),
        "The largest transactions": (
            "SELECT _tm_tx AS transaction, min(_tm_ts) AS committed, count(*) AS changes\n"
            f"FROM {table.changes}\nWHERE _tm_tx IS NOT NULL\nGROUP BY ALL\nORDER BY changes DESC\nLIMIT 20"
        ),
        "What was redumped": (
            "SELECT _tm_redump AS command, _tm_kind AS kind, count(*) AS rows\n"
            f"FROM {table.changes}\nWHERE _tm_redump IS NOT NULL\nGROUP BY ALL\nORDER BY ALL"
        ),
    }


def choices(table: KnownTable, saved: Mapping[str, str]) -> dict[str, str]:
    """Saved queries first, then examples."""
    return {f"★ {name}": sql for name, sql in sorted(saved.items())} | examples(table)


def span(copied: datetime | None, lag_at: datetime | None, lag_s: float | None) -> tuple[datetime, datetime] | None:
    """The time range in which a table's past state is known; None before it is copied, or while the lag is unknown.

    copied: when the copy was complete. lag_at, lag_s: the newest measurement of the lag.
    """
    if copied is None or lag_at is None or lag_s is None:
        return None
    until = lag_at - timedelta(seconds=lag_s)
    return (copied, until) if until > copied else None


def refused(at: datetime, span: tuple[datetime, datetime] | None) -> str:
    """Why the state of the table at that time is not known; empty if it is."""
    if span is None:
        return "The table is not copied yet, or the lag has not been measured yet."
    if at < span[0]:
        return f"The table was copied at {words.date_time(span[0])}; its earlier states are not known."
    if at > span[1]:
        return f"The binlog is read up to {words.date_time(span[1])}; later changes are not known yet."
    return ""


MOST_COLUMNS = 12
"""More columns in a line would push the editor off the screen."""


def columns_note(table: KnownTable) -> str:
    """The key, and the columns or how many there are."""
    few = len(table.columns) <= MOST_COLUMNS
    columns = ", ".join(table.columns) if few else f"{len(table.columns):,}, below"
    return f"Key: {', '.join(table.key) or 'none'}. Columns: {columns}"


def note(rows: int, seconds: float, *, more: bool) -> str:
    """How many rows a query returned, and how long it took."""
    most = f"the first {rows:,} rows; there are more" if more else words.plural(rows, "row")
    return f"{most}, in {words.duration(seconds)}"


def key_of(values: Sequence[str | None]) -> tuple[str, ...] | None:
    """The values of a key; None if one is missing."""
    return None if any(value in (None, "") for value in values) else tuple(map(str, values))


def exact(rows: pa.Table) -> pa.Table:
    """An answer with times as text: a data frame shows them without fractions of a second."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_time(field.type):
            rows = rows.set_column(number, field.name, rows.column(number).cast(pa.string()))
    return rows


def floats(rows: pa.Table) -> list[str]:
    """The columns of an answer with floating-point numbers, which a data frame rounds to four decimals."""
    return [field.name for field in rows.schema if pa.types.is_floating(field.type)]
