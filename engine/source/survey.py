"""Surveys the source for users who choose tables: every visible table, with its costs and risks.

It only queries the catalog: a fixed number of statements per database, and one per table with a foreign key.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.decode.schema import Table
from engine.source.catalog import Statistics, list_tables, read_tables, statistics
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


@dataclass(frozen=True)
class Surveyed:
    """A table with the server's estimates."""

    table: Table
    statistics: Statistics
    cascades: tuple[str, ...] = ()
    """Foreign keys that change the table's rows without an event in the binlog."""


def survey(connection: Connection, server: Server) -> list[Surveyed]:
    """Every base table visible to the user, ordered by name."""
    tables = read_tables(connection, list_tables(connection))
    estimates, unlogged = statistics(connection, tables), _unlogged(connection, server, tables)
    return [
        Surveyed(table, estimates.get(table.full_name, Statistics(0, 0, 0)), unlogged.get(table.full_name, ()))
        for table in tables
    ]


def _unlogged(connection: Connection, server: Server, tables: Sequence[Table]) -> dict[str, tuple[str, ...]]:
    if server.flavor == "mysql" and server.version >= _LOGS_CASCADES:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for database in dict.fromkeys(table.database for table in tables):
        for row in query(connection, _REFERRING, (database,)):
            (definition,) = query(connection, f"SHOW CREATE TABLE {quote(database, row['t'])}")
            if names := tuple(_CASCADE.findall(definition["Create Table"])):
                found[f"{database}.{row['t']}"] = names
    return found
