"""A private server with one table, all of whose binlog positions are known."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import gtids_at, read_range
from engine.capture.binlog.position_search import Binlog
from engine.source.ancestry import check_same
from engine.source.catalog import read_table
from engine.source.connect import Connection, Endpoint, describe, open_connection
from engine.source.heads import read_head
from engine.source.positions import Position, binlog_files, current
from tests.servers import PASSWORD, USER, Server
from tests.servers.replica import executed

FIRST_ID = 6000
ServerFactory = Callable[..., Server]


@dataclass
class Place:
    """A position between two transactions, and how many rows were written before it."""

    position: Position
    rows: int
    gtids: str


class Written:
    """A private server with one table, several binlog files, and every position between two transactions."""

    def __init__(self, server: Server, *, rows: int | None = None) -> None:
        """rows: the number of rows that the table already has, on a replica; None: create the table."""
        self.server = server
        self.endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
        self.mariadb = server.flavor == "mariadb"
        if rows is None:
            server.execute("CREATE DATABASE d")
            server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
        self.places: list[Place] = []
        self.rows = rows or 0

    def connection(self) -> Connection:
        return open_connection(self.endpoint)

    def end(self) -> Position:
        with closing(self.connection()) as connection:
            return current(connection, describe(connection))

    def write(self, *, prepare: str = "DO 0") -> None:
        """Write one row in one transaction, with a domain or a tag from `prepare`; keep the position in front of it."""
        self.places.append(Place(self.end(), self.rows, executed(self.server)))
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(prepare)
            cursor.execute("INSERT INTO d.t VALUES (%s)", (self.rows,))
        self.rows += 1

    def several(self) -> None:
        """Write rows with several kinds of GTID into three files."""
        for number in range(9):
            other = "SET gtid_domain_id = 7" if self.mariadb else "SET gtid_next = 'AUTOMATIC:a_tag'"
            self.write(prepare=other if number % 4 == 1 else "DO 0")
            if number % 3 == 2:
                self.server.execute("FLUSH BINARY LOGS")

    def binlog(self) -> Binlog:
        with closing(self.connection()) as connection:
            files, end = list(binlog_files(connection)), current(connection, describe(connection))
        return Binlog(self.endpoint, FIRST_ID, files, end, self.mariadb)

    def read_from(self, start: Position) -> tuple[list[int], BinlogRange]:
        """The rows behind a position."""
        with closing(self.connection()) as connection:
            table = read_table(connection, "d", "t")
        binlog_range = BinlogRange({("d", "t"): table}, start, self.end(), mariadb=self.mariadb)
        keys = [k for _, _, c in read_range(self.endpoint, binlog_range, FIRST_ID) for k in c.rows["id"].to_pylist()]
        return keys, binlog_range

    def check(self, position: Position) -> None:
        """Call `check_same` as a run does."""
        with closing(self.connection()) as connection:
            check_same(connection, self.endpoint, describe(connection), position, FIRST_ID)

    def anchored(self) -> Position:
        """The end of the binlog as the ledger stores it."""
        end = self.end()
        gtids = gtids_at(self.endpoint, end, FIRST_ID, mariadb=self.mariadb)
        return Position(end.file, end.offset, gtids, read_head(self.endpoint, end.file, FIRST_ID).born)
