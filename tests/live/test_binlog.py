"""Reading binlog ranges: across file ends, from a file's end, and when a write is logged as a statement."""

from collections.abc import Callable
from contextlib import closing
from itertools import pairwise

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import gtids_at, read_range
from engine.run.epochs.epoch import split_range
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, current
from tests.servers import PASSWORD, USER, Server


def test_ranges_over_many_files_add_up(server: Server, database: str) -> None:
    """Ranges that are split at file ends give every change once and in order, like one range over all files."""
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        begin = current(connection, described)
        for number in range(9):
            server.execute(f"INSERT INTO `{database}`.t VALUES (%s), (%s)", (number, number + 100))
            if number % 3 == 2:
                server.execute("FLUSH BINARY LOGS")
        end = current(connection, described)
        table, files = read_table(connection, database, "t"), binlog_files(connection)

    def read(start: Position, stop: Position) -> list[int]:
        binlog_range = BinlogRange({(database, "t"): table}, start, stop, mariadb=server.flavor == "mariadb")
        found = [key for _, _, c in read_range(endpoint, binlog_range, 6000) for key in c.rows["id"].to_pylist()]
        assert binlog_range.is_done
        assert not binlog_range.stop_errors
        return found

    wanted = [key for number in range(9) for key in (number, number + 100)]
    assert read(begin, end) == wanted
    ends = [Position(name, size) for name, size in files.items() if begin.order < (int(name[-6:]), size) < end.order]
    assert len(ends) == 3
    places = [begin, *ends, end]
    assert [key for a, b in pairwise(places) for key in read(a, b)] == wanted
    parts = split_range(files, begin, end, slots=2)
    assert [key for a, b in parts for key in read(a, b)] == wanted


def test_the_gtid_set_at_a_position_is_what_the_server_executed(
    server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """On an idle MySQL, the GTID set decoded from the binlog equals the server's own, in later files too."""
    server = server_with("mysql")
    database = new_database(server)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    create, insert = f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)", f"INSERT INTO `{database}`.t VALUES (1)"
    for statement in (create, "FLUSH BINARY LOGS", insert):
        server.execute(statement)
        with closing(open_connection(endpoint)) as connection:
            position = current(connection, describe(connection))
        executed = server.execute("SELECT @@global.gtid_executed")[0][0].replace("\n", "")
        assert position.offset > FIRST_OFFSET
        assert gtids_at(endpoint, position, 6000) == executed


def test_a_write_logged_as_a_statement_is_never_passed_over(server: Server, database: str) -> None:
    """Through a view, the statement does not name the captured table. The binlog range ends behind it anyway."""
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"CREATE VIEW `{database}`.seen AS SELECT * FROM `{database}`.t")
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        begin, table = current(connection, described), read_table(connection, database, "t")
        with closing(server.connect()) as session, session.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
            cursor.execute(f"INSERT INTO `{database}`.seen VALUES (1)")
        end = current(connection, described)
    binlog_range = BinlogRange({(database, "t"): table}, begin, end, mariadb=server.flavor == "mariadb")
    assert list(read_range(endpoint, binlog_range, 6000)) == []
    assert binlog_range.alteration is not None
    assert binlog_range.alteration.written_tables is not None
    assert binlog_range.alteration.written_tables.tables == ((database, "seen"),)
