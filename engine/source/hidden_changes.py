"""Changes of the source that its binlog does not have, as far as the catalog shows that they can happen.

Others cannot be foreseen: sessions with `sql_log_bin` off, exchanged partitions, imported tablespaces. Verification finds what they
leave behind (docs/verification.md).
"""

import re
from collections.abc import Iterable, Sequence

from engine.decode.schema import Table
from engine.source.connect import Connection, Server, query, quote

# REFERENTIAL_CONSTRAINTS has the rules, but MariaDB hides it from users with SELECT only.
_REFERRING = """
SELECT DISTINCT TABLE_NAME AS t FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME IS NOT NULL"""
_CASCADE = re.compile(
    r"^ *CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET )", re.MULTILINE
)
_LOGS_CASCADES = (9, 6)
"""From this version on, MySQL logs the rows that its foreign keys change. MariaDB does not."""


def unlogged_cascades(connection: Connection, server: Server, tables: Sequence[Table]) -> dict[str, tuple[str, ...]]:
    """By table, the foreign keys that change its rows without an event in the binlog. One statement per table that has one."""
    if server.flavor == "mysql" and server.version >= _LOGS_CASCADES:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    known = {table.full_name for table in tables}
    for database in dict.fromkeys(table.database for table in tables):
        for row in query(connection, _REFERRING, (database,)):
            name = f"{database}.{row['t']}"
            if name in known:
                (definition,) = query(connection, f"SHOW CREATE TABLE {quote(database, row['t'])}")
                if names := tuple(_CASCADE.findall(definition["Create Table"])):
                    found[name] = names
    return found


def filtered_databases(connection: Connection, server: Server, databases: Iterable[str]) -> list[str]:
    """The databases whose changes the server leaves out of its binlog (`binlog-do-db`, `binlog-ignore-db`)."""
    (status,) = query(connection, server.binlog_status)[:1] or [{}]
    logged, ignored = (
        {name.strip() for name in str(status.get(column) or "").split(",") if name.strip()}
        for column in ("Binlog_Do_DB", "Binlog_Ignore_DB")
    )
    return sorted(name for name in set(databases) if name in ignored or (logged and name not in logged))
