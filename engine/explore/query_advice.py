"""What to do about an error of DuckDB. Its messages say what is wrong with a query, rarely how it is put right."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

import duckdb

from engine.base.wording import listing
from engine.decode.schema import Table

_COLUMN = re.compile(r'(?:Referenced column|Column|column) "(.+?)" (?:not found|does not exist)')
_MOST_NAMES = 8
_ADVICE: tuple[tuple[type[duckdb.Error], str, str], ...] = (
    (duckdb.BinderException, "FROM clause is missing", "Name the table: SELECT … FROM a table of the list."),
    (
        duckdb.BinderException,
        "must appear in the GROUP BY",
        "Add the column to GROUP BY, or aggregate it: any_value(column).",
    ),
    (
        duckdb.BinderException,
        "Ambiguous reference to table",
        "Give each table an alias: FROM a table AS a, a table AS b.",
    ),
    (duckdb.BinderException, "Ambiguous reference", "Name the column with its table: a.column."),
    (
        duckdb.BinderException,
        "No function matches",
        "Cast the values to types that fit: column::VARCHAR, column::BIGINT.",
    ),
    (
        duckdb.CatalogException,
        "Function with name",
        "The SQL is DuckDB's: functions of the source may have other names here, such as strftime for date_format.",
    ),
    (
        duckdb.ConversionException,
        "",
        (
            "Compare with a value of the column's type, or use TRY_CAST(column AS type), "
            "which is NULL where that is impossible."
        ),
    ),
    (duckdb.OutOfRangeException, "", "Cast to a wider type first: column::HUGEINT or column::DOUBLE."),
    (
        duckdb.OutOfMemoryException,
        "",
        "Narrow it down by the key or by _tm_ts, or query the destination with your own tool.",
    ),
    (
        duckdb.IOException,
        "",
        "A data file may have been replaced meanwhile: run the query again. If it fails again, verify the table.",
    ),
    (
        duckdb.ParserException,
        "",
        "The SQL is DuckDB's: texts stand in single quotes, and names with unusual characters in double quotes.",
    ),
)
"""By the class of an error and a part of its message, what to do. The first that fits counts."""
_OTHERWISE = "Correct the query. Its SQL is DuckDB's, whose documentation explains the error."


def advice(error: duckdb.Error, sql: str, tables: Sequence[Table]) -> str:
    """What to do about the error of a query over these tables; never empty."""
    message = str(error)
    if (match := _COLUMN.search(message)) is not None:
        return _column(match[1], sql, tables)
    fitting = (text for kind, part, text in _ADVICE if isinstance(error, kind) and part in message)
    return next(fitting, _OTHERWISE)


def _column(name: str, sql: str, tables: Sequence[Table]) -> str:
    """What to write instead of a column that does not exist."""
    text = f"A text stands in single quotes: '{name}'. " if f'"{name}"' in sql else ""
    used = [table for table in tables if table.name.casefold() in sql.casefold()] or list(tables)
    columns = list(dict.fromkeys(column.name for table in used for column in table.columns))
    by_folded = {column.casefold(): column for column in columns}
    near = [by_folded[one] for one in get_close_matches(name.casefold(), by_folded, 3)]
    names = near or columns
    return f"{text}Columns: {listing(names, _MOST_NAMES)}." if names else f"{text}{_OTHERWISE}"
