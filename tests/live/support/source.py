"""The tables of one database on a real server, and their binlog, read without Spark and replayed."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.row_changes import RowChanges
from engine.decode.images import AFTER, INSERT
from engine.decode.schema import Table
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import Position, current
from tests.servers import PASSWORD, USER, Server

COMPRESSED: dict[str, dict[str, Any]] = {
    "mysql": {"binlog_transaction_compression": 1},
    "mariadb": {"log_bin_compress": 1, "log_bin_compress_min_len": 10},
}
Rows = dict[Any, tuple[Any, ...]]


class Source:
    """The tables of one database, and positions in the binlog."""

    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database = server, database
        self.endpoint = Endpoint(server.host, server.port, USER, PASSWORD)

    def at(self) -> Position:
        with closing(open_connection(self.endpoint)) as connection:
            return current(connection, describe(connection))

    def table(self, name: str) -> Table:
        with closing(open_connection(self.endpoint)) as connection:
            return read_table(connection, self.database, name)

    def run(self, *statements: str) -> None:
        """Run statements in one session and close it."""
        with closing(self.server.connect(database=self.database)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def read(
        self, start: Position, end: Position, *names: str
    ) -> tuple[BinlogRange, Iterator[tuple[Table, str, RowChanges]]]:
        tables = {(self.database, name): self.table(name) for name in names}
        binlog_range = BinlogRange(tables, start, end, mariadb=self.server.flavor == "mariadb")
        return binlog_range, read_range(self.endpoint, binlog_range, 6000)

    def replayed(self, start: Position, end: Position, *names: str, rows: dict[str, Rows] | None = None) -> BinlogRange:
        """Apply the changes of a binlog range to `rows`; every change must match the row that it finds."""
        state = {name: {} for name in names} if rows is None else rows
        binlog_range, found = self.read(start, end, *names)
        for table, _, changes in found:
            held = state[table.name]
            for row, kind in zip(changes.rows.to_pylist(), changes.fact("kind").tolist(), strict=True):
                values = tuple(row.values())
                if kind in (INSERT, AFTER):
                    assert values[0] not in held, values[0]
                    held[values[0]] = values
                else:
                    assert held.pop(values[0]) == values
        assert not binlog_range.stop_errors, binlog_range.stop_errors
        return binlog_range

    def selected(self, name: str) -> Rows:
        return {row[0]: row for row in self.server.execute(f"SELECT * FROM `{self.database}`.`{name}`")}

    def check(self, start: Position, *names: str) -> BinlogRange:
        """Assert that replaying the binlog from `start`, where the tables were empty, gives the tables."""
        rows: dict[str, Rows] = {name: {} for name in names}
        binlog_range = self.replayed(start, self.at(), *names, rows=rows)
        for name in names:
            assert rows[name] == self.selected(name), name
        return binlog_range


def prepared(server: Server, database: str) -> Source:
    """Create the tables on this server."""
    server.execute(f"CREATE TABLE `{database}`.i (id INT PRIMARY KEY, v LONGTEXT) ENGINE = InnoDB")
    server.execute(f"CREATE TABLE `{database}`.m (id INT PRIMARY KEY, v LONGTEXT) ENGINE = MyISAM")
    server.execute(f"CREATE TABLE `{database}`.other (id INT PRIMARY KEY, v LONGTEXT) ENGINE = InnoDB")
    return Source(server, database)


def numbers(first: int, last: int) -> str:
    """A SELECT of numbers, to insert thousands of rows with one statement."""
    return (
        f"WITH RECURSIVE n AS (SELECT {first} AS k UNION ALL SELECT k + 1 FROM n WHERE k < {last}) "
        "SELECT /*+ SET_VAR(cte_max_recursion_depth = 10000000) */ "
    )
