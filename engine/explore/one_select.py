"""Accepts one SELECT and nothing else, judged by DuckDB's own parser.

DuckDB calls a statement a SELECT whatever its parts do: `WITH x AS (COPY … TO …) SELECT` writes a file. So the parsed
tree counts, which DuckDB shows as JSON. Every query in it must be of a kind that only reads. Table functions are called
by name, from a short list: others read files, run further SQL, or follow an address in memory.
"""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from engine.base.errors import TidemarkError

_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_NODE = "_NODE"
_TABLE_FUNCTION = "TABLE_FUNCTION"
TABLE_FUNCTIONS = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest", "generate_subscripts"}
)
"""The table functions that a query may call: they make rows from their arguments."""
_NOTHING = "Nothing was changed: queries here can only read."


class QueryError(TidemarkError):
    """A query that cannot be answered; queries change nothing."""

    exit_code = 2


def one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The text's only statement. Raises QueryError unless it is a SELECT, duckdb.Error for a text that is not SQL."""
    statements = connection.extract_statements(sql)
    if not statements:
        raise QueryError("The text contains no query.", hint="SELECT … FROM a table of the list.")
    if len(statements) > 1:
        raise QueryError(f"The text has {len(statements)} statements.", detail=_NOTHING, hint="Run them one by one.")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise _refused(statement.type.name)
    (row,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement.query]).fetchall()
    tree = json.loads(row[0])
    if tree.get("error"):
        raise _refused("statement that DuckDB cannot show as a tree")
    for part in _parts(tree):
        _check(part)
    return statement


def _check(part: dict[str, Any]) -> None:
    kind = part.get("type")
    if isinstance(kind, str) and kind.endswith(_NODE) and kind not in _QUERIES:
        raise _refused(kind.removesuffix(_NODE).removesuffix("_QUERY"))
    if kind == _TABLE_FUNCTION:
        name = str(part["function"].get("function_name"))
        if name.casefold() not in TABLE_FUNCTIONS or part["function"].get("schema"):
            raise QueryError(
                f"The table function {name} cannot be called here.",
                detail=_NOTHING,
                hint=f"Queries read tables of the list, and call {', '.join(sorted(TABLE_FUNCTIONS))}.",
            )


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of the tree. It is walked without recursion: a tree can be deeper than Python's stack."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _refused(kind: str) -> QueryError:
    return QueryError(
        f"Only a SELECT can be run here; this is a {kind.replace('_', ' ')}.",
        detail=_NOTHING,
        hint="SELECT … FROM a table of the list. A PIVOT needs its values: PIVOT … ON column IN (…).",
    )
