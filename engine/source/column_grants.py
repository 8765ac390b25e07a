"""Columns that the user may not SELECT. The catalog silently omits them, but row images have them.

Such a table would look altered at each of its changes. Two signs show missing columns: a gap in the catalog's numbers,
and that the server refuses SELECT *. Without a privilege on a column, its name is hidden; then its number stands for
it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from engine.decode.schema import TableName
from engine.source.connect import Connection, explain, query, quote
from engine.source.own_account import GRANTEE, own_account

_DENIED = (1142, 1143)
"""Server errors: SELECT is denied for the table, or for one of its columns."""
_EVERYWHERE = f"SELECT PRIVILEGE_TYPE AS p FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = {GRANTEE}"
_IN_DATABASES = _EVERYWHERE.replace("PRIVILEGE_TYPE AS p", "PRIVILEGE_TYPE AS p, TABLE_SCHEMA AS d").replace(
    "USER_PRIVILEGES", "SCHEMA_PRIVILEGES"
)


def missing_columns(
    connection: Connection, columns: Mapping[TableName, Sequence[Mapping[str, Any]]]
) -> dict[TableName, tuple[str, ...]]:
    """The columns of each table that the user may not SELECT, as texts; tables without any are left out.

    columns: the catalog's rows of each table's columns, with `name`, `place` and `privileges`. One more statement per
    table, unless the user has SELECT on everything or on the table's database.
    """
    if any(row["p"].upper() == "SELECT" for row in query(connection, _EVERYWHERE)):
        return {}
    granted = {
        row["d"].replace("\\_", "_").replace("\\%", "%")
        for row in query(connection, _IN_DATABASES)
        if row["p"].upper() == "SELECT"
    }
    hidden = {}
    for name, rows in columns.items():
        if name[0] not in granted and rows:
            missing = _missing(rows)
            if missing or not _shows_all(connection, name):
                hidden[name] = missing or (f"columns after {rows[-1]['name']!r}",)
    return hidden


def _missing(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    by_place = {int(row["place"]): row for row in rows}
    return tuple(
        repr(by_place[place]["name"]) if place in by_place else f"column {place}"
        for place in range(1, max(by_place) + 1)
        if place not in by_place or "select" not in str(by_place[place]["privileges"]).lower()
    )


def _shows_all(connection: Connection, name: TableName) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {quote(*name)} LIMIT 0")
    except pymysql.Error as error:
        number = error.args[0] if error.args else 0
        if number in _DENIED:
            return False
        if not connection.open:
            raise explain(error, "Looking for missing columns") from error
    return True


def grant_of(connection: Connection, name: TableName) -> str:
    """The statement that lets the user SELECT all columns of a table, also those that it gets later."""
    return f"GRANT SELECT ON {quote(*name)} TO {own_account(connection)};"
