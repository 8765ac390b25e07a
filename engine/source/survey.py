"""Surveys the source for users who choose tables: every visible table, with its costs and risks.

It only queries the catalog: a fixed number of statements per database, and on MariaDB one per table with a foreign key.
"""

from dataclasses import dataclass

from engine.decode.schema import Table
from engine.source.catalog import Statistics, list_tables, read_tables, statistics
from engine.source.connect import Connection, Server
from engine.source.hidden_changes import unlogged_cascades


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
    estimates = statistics(connection, tables)
    readable_tables = [(table.database, table.name) for table in tables if not table.remedy]
    unlogged = unlogged_cascades(connection, server, readable_tables)
    return [
        Surveyed(table, estimates.get(table.full_name, Statistics(0, 0, 0)), unlogged.get(table.full_name, ()))
        for table in tables
    ]
