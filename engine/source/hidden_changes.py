"""Changes of the source that its binlog does not have, as far as the catalog shows that they can happen.

Others cannot be foreseen: sessions with `sql_log_bin` off, exchanged partitions, imported tablespaces. Verification
finds what they leave behind (docs/verification.md).
"""

import re
from collections.abc import Collection, Iterable, Mapping

from engine.source.connect import Connection, Server, query, quote

# REFERENTIAL_CONSTRAINTS has the rules, but MariaDB hides it from users with SELECT only.
_RULES = """
SELECT TABLE_NAME AS t, CONSTRAINT_NAME AS name FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = %s AND (DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
 OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')) ORDER BY t, name"""
_REFERRING = """
SELECT DISTINCT TABLE_NAME AS t FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME IS NOT NULL"""
_CASCADE = re.compile(
    r"^ *CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET )", re.MULTILINE
)
_LOGS_CASCADES = (9, 6)
"""From this version on, MySQL logs the rows that its foreign keys change. MariaDB does not."""


def unlogged_cascades(
    connection: Connection, server: Server, tables: Collection[tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    """By table, the foreign keys that change its rows without an event in the binlog. tables: database and name.

    One statement per database; on MariaDB also one per table with a foreign key.
    """
    if server.flavor == "mysql" and server.version >= _LOGS_CASCADES:
        return {}
    names_of_tables, databases = set(tables), dict.fromkeys(database for database, _ in tables)
    cascades: dict[str, tuple[str, ...]] = {}
    if server.flavor == "mysql":
        for database in databases:
            for row in query(connection, _RULES, (database,)):
                if (database, row["t"]) in names_of_tables:
                    name = f"{database}.{row['t']}"
                    cascades[name] = (*cascades.get(name, ()), row["name"])
        return cascades
    for database in databases:
        for row in query(connection, _REFERRING, (database,)):
            if (database, row["t"]) in names_of_tables:
                (definition,) = query(connection, f"SHOW CREATE TABLE {quote(database, row['t'])}")
                if names := tuple(_CASCADE.findall(definition["Create Table"])):
                    cascades[f"{database}.{row['t']}"] = names
    return cascades


def is_unlogged_replica(connection: Connection, server: Server, variables: Mapping[str, str]) -> bool:
    """Whether the server applies, or has applied, another server's changes without events in its own binlog.

    variables: the server's. MariaDB tells by `gtid_slave_pos`, because it shows the state of a replica to few users.
    """
    if "ON" in (variables.get("log_replica_updates"), variables.get("log_slave_updates")):
        return False
    if server.flavor == "mariadb":
        return bool(variables.get("gtid_slave_pos"))
    return bool(query(connection, "SHOW REPLICA STATUS"))


def filtered_databases(connection: Connection, server: Server, databases: Iterable[str]) -> list[str]:
    """The databases whose changes the server leaves out of its binlog (`binlog-do-db`, `binlog-ignore-db`)."""
    (status,) = query(connection, server.binlog_status)[:1] or [{}]
    logged, ignored = (
        {name.strip() for name in str(status.get(column) or "").split(",") if name.strip()}
        for column in ("Binlog_Do_DB", "Binlog_Ignore_DB")
    )
    return sorted(name for name in set(databases) if name in ignored or (logged and name not in logged))
