"""Every event that servers log: the replayed changes of a binlog range equal what SELECT returns."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DecodeError, SourceLostError
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.row_changes import RowChanges
from engine.decode.schema import Table
from engine.source.connect import open_connection
from engine.source.positions import Position, binlog_files
from engine.source.xa_places import XaPlaces
from tests.live.support.source import COMPRESSED, Rows, Source, numbers, prepared
from tests.servers import Server


@pytest.fixture
def source(server: Server, database: str) -> Source:
    """An InnoDB table `i` and a MyISAM table `m`."""
    return prepared(server, database)


@pytest.fixture
def compressing(flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str]) -> Source:
    """The same on a server that compresses its binlog."""
    server = server_with(flavor, **COMPRESSED[flavor])
    return prepared(server, new_database(server))


def test_compressed_transactions_give_what_plain_ones_give(compressing: Source) -> None:
    """Small transactions, one of many statements and large rows, with rows of other tables among them."""
    begin = compressing.at()
    for n in range(40):
        compressing.run(f"INSERT INTO i VALUES ({n}, REPEAT('x', {n * 50}))")
    statements = [f"UPDATE i SET v = REPEAT('y', {n * 20}) WHERE id = {n}" for n in range(30)]
    others = [f"INSERT INTO other VALUES ({n}, REPEAT('o', 900))" for n in range(30)]
    both = [s for pair in zip(statements, others, strict=True) for s in pair]
    compressing.run("BEGIN", *both, "DELETE FROM i WHERE id > 35", "COMMIT")
    compressing.run("INSERT INTO m VALUES (1, REPEAT('m', 3000))", "UPDATE m SET v = NULL")
    binlog_range = compressing.check(begin, "i", "m")
    kind = "TRANSACTION_PAYLOAD" if compressing.server.flavor == "mysql" else "MARIA_WRITE_ROWS_COMPRESSED_V1"
    assert binlog_range.statistics.events[kind] >= 39
    assert sum(n for name, n in binlog_range.statistics.events.items() if "WRITE_ROWS" in name) == 40 + 30 + 1
    assert not binlog_range.statistics.unknown_events


def test_a_compressed_transaction_of_many_megabytes_passes(compressing: Source) -> None:
    """It is decompressed in pieces, each with the position of the whole; nothing is lost in between."""
    begin = compressing.at()
    compressing.run(
        "SET SESSION "
        + ("cte_max_recursion_depth" if compressing.server.flavor == "mysql" else "max_recursive_iterations")
        + " = 1000000",
        "BEGIN",
        f"INSERT INTO i {numbers(1, 30000)} k, REPEAT(k, 300) FROM n",
        "UPDATE i SET v = CONCAT(v, 'u') WHERE id % 3 = 0",
        "COMMIT",
    )
    end = compressing.at()
    compressing.check(begin, "i")
    _, found = compressing.read(begin, end, "i")
    parts = [changes for _, _, changes in found]
    assert len(parts) > 2
    if compressing.server.flavor == "mysql":
        assert {int(o) for part in parts for o in part.fact("offset")} == {end.offset}


def test_compressed_statements_are_read(compressing: Source) -> None:
    """A compressed DDL of a captured table is recognised."""
    begin = compressing.at()
    compressing.run("INSERT INTO i VALUES (1, 'a')", f"ALTER TABLE i ADD COLUMN {'n' * 60} INT COMMENT '{'c' * 500}'")
    binlog_range, found = compressing.read(begin, compressing.at(), "m")
    assert list(found) == []
    assert binlog_range.alteration is None
    table = compressing.table("i")
    binlog_range = BinlogRange(
        {(compressing.database, "i"): Table(table.database, "i", table.columns[:2], table.key)},
        begin,
        compressing.at(),
        mariadb=compressing.server.flavor == "mariadb",
    )
    (only,) = read_range(compressing.endpoint, binlog_range, 6000)
    assert only[2].rows["id"].to_pylist() == [1]
    assert binlog_range.alteration is not None


XA = [
    ("XA START 'a'", "INSERT INTO i VALUES (1, 'prepared')", "XA END 'a'", "XA PREPARE 'a'"),
    ("INSERT INTO i VALUES (2, 'between')",),
    ("XA START 'b', 'branch', 77", "INSERT INTO i VALUES (3, 'gone')", "XA END 'b', 'branch', 77",
    "XA PREPARE 'b', 'branch', 77"),
    ("XA ROLLBACK 'b', 'branch', 77",),
    ("XA COMMIT 'a'", "UPDATE i SET v = 'later' WHERE id = 1"),
    ("XA START 'a'", "UPDATE i SET v = 'again'", "XA END 'a'", "XA PREPARE 'a'"),
    ("XA COMMIT 'a'",),
    ("XA START 'c'", "INSERT INTO i VALUES (4, 'at once')", "XA END 'c'", "XA COMMIT 'c' ONE PHASE"),
    ("XA START 'd'", "INSERT INTO i VALUES (5, 'never')", "XA END 'd'", "XA ROLLBACK 'd'"),
]  # fmt: skip


@pytest.mark.parametrize("compressed", [False, True])
def test_xa_transactions_count_where_they_are_committed(
    compressed: bool, flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """Whatever the ranges and files, rows count from their commit on, and never after a rollback."""
    server = server_with(flavor, **(COMPRESSED[flavor] if compressed else {"max_binlog_size": 1 << 20}))
    source = prepared(server, new_database(server))
    places, states = [source.at()], [source.selected("i")]
    for n, statements in enumerate(XA):
        source.run(*statements)
        if n in (2, 4):
            server.execute("FLUSH BINARY LOGS")
        places.append(source.at())
        states.append(source.selected("i"))
    source.check(places[0], "i")
    rows: dict[str, Rows] = {"i": {}}
    for n, (start, end) in enumerate(pairwise(places)):
        source.replayed(start, end, "i", rows=rows)
        assert rows["i"] == states[n + 1], XA[n]


EXECUTED = {"mysql": "SELECT @@global.gtid_executed", "mariadb": "SELECT @@global.gtid_binlog_pos"}


def test_the_changes_of_an_xa_transaction_come_with_its_commit(source: Source) -> None:
    """Position, time and GTID are those of XA COMMIT."""
    source.run("XA START 'x'", "INSERT INTO i VALUES (1, 'a'), (2, 'b')", "XA END 'x'", "XA PREPARE 'x'")
    begin, (executed,) = source.at(), source.server.execute(EXECUTED[source.server.flavor])
    source.run("XA COMMIT 'x'")
    end = source.at()
    _, found = source.read(begin, end, "i")
    ((_, file, changes),) = found
    assert (file, set(changes.fact("offset").tolist())) == (end.file, {end.offset})
    (number,) = set(changes.fact("tx_n").tolist())
    if source.server.flavor == "mysql":
        ((added,),) = source.server.execute("SELECT GTID_SUBTRACT(@@global.gtid_executed, %s)", executed)
        assert added.endswith(f":{number}")
    else:
        assert source.server.execute(EXECUTED["mariadb"])[0][0].endswith(f"-{number}")


def test_an_xa_transaction_whose_prepare_was_purged_is_named(
    flavor: str, private_server: Callable[..., Server]
) -> None:
    """Its rows can no longer be known, so the error names it."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    source = prepared(server, "d")
    source.run("XA START 'x'", "INSERT INTO i VALUES (1, 'a')", "XA END 'x'", "XA PREPARE 'x'")
    server.execute("FLUSH BINARY LOGS")
    begin = source.at()
    source.run("XA COMMIT 'x'")
    server.purge_binlogs(begin.file)
    _, found = source.read(begin, source.at(), "i")
    with pytest.raises(SourceLostError, match="commits an XA transaction whose rows it no longer contains"):
        list(found)


MIXED: dict[str, tuple[str, ...]] = {
    "commit": ("BEGIN", "INSERT INTO i VALUES (1, 'a')", "INSERT INTO m VALUES (1, 'a')", "COMMIT"),
    "rollback": ("BEGIN", "INSERT INTO i VALUES (1, 'a')", "INSERT INTO m VALUES (1, 'a')", "ROLLBACK"),
    "temporary": (
        "CREATE TEMPORARY TABLE t (id INT)", "BEGIN", "INSERT INTO i VALUES (1, 'a')", "INSERT INTO m VALUES (1, 'a')",
        "DROP TEMPORARY TABLE t", "ROLLBACK",
    ),
    "savepoint": (
        "BEGIN", "INSERT INTO i VALUES (1, 'a')", "SAVEPOINT `a b`", "INSERT INTO i VALUES (2, 'b')",
        "INSERT INTO m VALUES (2, 'b')", "ROLLBACK TO `A b`", "INSERT INTO i VALUES (3, 'c')", "COMMIT",
    ),
    "savepoints": (
        "BEGIN", "SAVEPOINT s", "INSERT INTO i VALUES (1, 'a')", "SAVEPOINT t", "INSERT INTO i VALUES (2, 'a')",
        "SAVEPOINT s",
        "INSERT INTO i VALUES (3, 'a')", "INSERT INTO m VALUES (3, 'a')", "ROLLBACK TO s",
        "INSERT INTO i VALUES (4, 'a')",
        "ROLLBACK TO t", "INSERT INTO i VALUES (5, 'a')", "SAVEPOINT u", "INSERT INTO i VALUES (6, 'a')",
        "RELEASE SAVEPOINT u",
        "COMMIT",
    ),
    "all of it": (
        "BEGIN", "INSERT INTO i VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO m VALUES (2, 'b')",
        "INSERT INTO i VALUES (2, 'b')",
        "ROLLBACK TO s", "INSERT INTO i VALUES (3, 'c')", "ROLLBACK",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("compressed", [False, True])
def test_transactions_over_two_engines_are_read(
    case: str, compressed: bool, flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """A rollback undoes the rows of InnoDB and keeps those of MyISAM."""
    options = (COMPRESSED[flavor] if compressed else {}) | ({"gtid": False} if flavor == "mysql" else {})
    server = server_with(flavor, **options)
    source = prepared(server, new_database(server))
    begin = source.at()
    source.run(*MIXED[case])
    source.run("INSERT INTO i VALUES (9, 'z')")
    source.check(begin, "i", "m")


def test_a_savepoint_that_a_trigger_may_have_shadowed_stops_the_table(
    server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """MariaDB logs a trigger's savepoint like one that replaces the session's.

    So the log does not say which rows remain.
    """
    server = server_with("mariadb")
    source = prepared(server, new_database(server))
    source.run(
        "CREATE TRIGGER shadow AFTER INSERT ON other FOR EACH ROW BEGIN SAVEPOINT s; INSERT INTO i VALUES (3, 'c'); END"
    )
    begin = source.at()
    source.run(
        "BEGIN", "INSERT INTO i VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO i VALUES (2, 'b')",
        "INSERT INTO other VALUES (1, 1)",
        "INSERT INTO m VALUES (1, 'm')", "ROLLBACK TO s", "COMMIT",
    )  # fmt: skip
    assert set(source.selected("i")) == {1}
    binlog_range, found = source.read(begin, source.at(), "i", "m")
    given = {table.full_name for table, _, _ in list(found)} - set(binlog_range.stop_errors)
    assert (given, set(binlog_range.stop_errors)) == ({f"{source.database}.m"}, {f"{source.database}.i"})
    assert isinstance(
        binlog_range.stop_errors[f"{source.database}.i"], DecodeError
    )  # the binlog range discards what it had of the table


def test_a_prepared_transaction_survives_a_server_that_is_killed(
    flavor: str, private_server: Callable[..., Server]
) -> None:
    """It is committed after the server's restart, when table numbers start over."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    source = prepared(server, "d")
    begin = source.at()
    source.run("XA START 'x'", "INSERT INTO i VALUES (1, 'a')", "UPDATE i SET v = 'b'", "XA END 'x'", "XA PREPARE 'x'")
    server.kill()
    server.restart()
    source.run("INSERT INTO other VALUES (1, 'o')", "INSERT INTO m VALUES (7, 'm')")
    middle = source.at()
    source.run("XA COMMIT 'x'", "INSERT INTO i VALUES (2, 'after')")
    assert set(source.selected("i")) == {1, 2}
    source.check(begin, "i", "m")
    rows: dict[str, Rows] = {"i": {}}
    source.replayed(middle, source.at(), "i", rows=rows)
    assert rows["i"] == source.selected("i")


@pytest.mark.parametrize("ending", ["ROLLBACK", "ROLLBACK TO s", "COMMIT", "XA"])
def test_a_giant_transaction_is_read_however_it_ends(
    ending: str, flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """It is many times larger than the buffer, so its end is found before its rows are published."""
    server = server_with(flavor, **({"gtid": False} if flavor == "mysql" else {}))
    source = prepared(server, new_database(server))
    begin = source.at()
    most = "cte_max_recursion_depth" if flavor == "mysql" else "max_recursive_iterations"
    touching = ("INSERT INTO m VALUES (1, 'm')", "DROP TEMPORARY TABLE t") if ending != "XA" else ()
    opening, closing_ = (
        ("XA START 'g'", ("XA END 'g'", "XA PREPARE 'g'")) if ending == "XA" else ("BEGIN", (ending, "COMMIT"))
    )
    source.run(
        f"SET SESSION {most} = 1000000",
        "CREATE TEMPORARY TABLE t (id INT)",
        opening,
        "INSERT INTO i VALUES (1, 'before')",
        "SAVEPOINT s",
        f"INSERT INTO i {numbers(10, 60000)} k, REPEAT(k, 200) FROM n",
        *touching,
        *closing_,
    )
    source.run("INSERT INTO i VALUES (2, 'after')")
    middle = source.at()
    binlog_range = source.check(begin, "i", "m")
    if ending in ("COMMIT", "XA") or flavor == "mariadb":
        assert binlog_range.statistics.largest is not None
        assert binlog_range.statistics.largest["bytes"] > 30 << 20
    if ending == "XA":
        source.run("XA COMMIT 'g'")
        source.check(begin, "i", "m")
        rows: dict[str, Rows] = {"i": {2: (2, "after")}}
        source.replayed(middle, source.at(), "i", rows=rows)
        assert rows["i"] == source.selected("i")


def test_a_giant_row_passes(source: Source) -> None:
    """A row of 50 MB arrives complete, in bounded memory."""
    begin = source.at()
    source.run("INSERT INTO i VALUES (1, REPEAT('large', 10000000))", "UPDATE i SET v = LEFT(v, 7)")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, found = source.read(begin, source.at(), "i")
    sizes = [[len(v) for v in changes.rows["v"].to_pylist()] for _, _, changes in found]
    assert [n for part in sizes for n in part] == [50_000_000, 50_000_000, 7]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 900 << 10


def test_an_incident_is_the_end_and_says_so(private_server: Callable[..., Server]) -> None:
    """MySQL logs an incident when a statement on a MyISAM table does not fit its cache."""
    server = private_server("mysql", max_binlog_stmt_cache_size=4096, binlog_stmt_cache_size=4096, gtid=False)
    server.execute("CREATE DATABASE d")
    source = prepared(server, "d")
    begin = source.at()
    source.run("INSERT INTO i VALUES (1, 'before')")
    with pytest.raises(Exception, match="max_binlog_stmt_cache_size"):
        source.run(f"INSERT INTO m {numbers(1, 200)} k, REPEAT('z', 2000) FROM n")
    _, found = source.read(begin, source.at(), "i")
    with pytest.raises(SourceLostError, match="INCIDENT"):
        list(found)


def test_a_load_that_is_logged_as_a_statement_is_reported(source: Source, tmp_path: Path) -> None:
    """The blocks of its file are skipped, its statement is not."""
    begin = source.at()
    lines = tmp_path / "lines"
    lines.write_text("1\tone\n2\ttwo\n")
    source.run("INSERT INTO i VALUES (9, 'before')")
    with closing(source.server.connect(database=source.database, local_infile=True)) as session:
        for statement in (
            "SET SESSION binlog_format = 'STATEMENT'",
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            f"LOAD DATA LOCAL INFILE '{lines}' INTO TABLE i",
        ):
            session.cursor().execute(statement)
    binlog_range, found = source.read(begin, source.at(), "i")
    assert [row for _, _, changes in found for row in changes.rows["id"].to_pylist()] == [9]
    assert (
        binlog_range.statistics.events["BEGIN_LOAD_QUERY"] == binlog_range.statistics.events["EXECUTE_LOAD_QUERY"] == 1
    )
    assert binlog_range.alteration is not None
    assert binlog_range.alteration.written_tables is not None
    assert binlog_range.alteration.written_tables.tables == ((source.database, "i"),)
    assert str(lines) not in binlog_range.alteration.statement


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_transaction_that_a_killed_server_left_torn_does_not_count(
    flavor: str, encrypted: bool, private_server: Callable[..., Server], encrypted_server: Callable[..., Server]
) -> None:
    """MariaDB keeps a file that ends within an event, and its dump fails there; MySQL truncates the file."""
    server = (encrypted_server if encrypted else private_server)(flavor)
    server.execute("CREATE DATABASE d")
    source = prepared(server, "d")
    begin = source.at()
    source.run("INSERT INTO i VALUES (1, 'before')")
    most = "cte_max_recursion_depth" if flavor == "mysql" else "max_recursive_iterations"
    session = server.connect(database="d")
    cursor = session.cursor()
    for statement in (
        f"SET SESSION {most} = 1000000",
        "BEGIN",
        f"INSERT INTO i {numbers(10, 60000)} k, REPEAT(k, 500) FROM n",
    ):
        cursor.execute(statement)
    file = server.data / begin.file
    written = file.stat().st_size
    session._execute_command(3, "COMMIT")  # without waiting for the answer
    while file.stat().st_size < written + (18 << 20):
        time.sleep(0.001)
    server.kill()
    server.restart()
    source.run("INSERT INTO i VALUES (2, 'after')")
    assert set(source.selected("i")) == {1, 2}
    source.check(begin, "i")
    with closing(open_connection(source.endpoint)) as connection:
        size = binlog_files(connection)[begin.file]
    assert (size > written) == (flavor == "mariadb")
    rows: dict[str, Rows] = {"i": {}}
    source.replayed(begin, Position(begin.file, size), "i", rows=rows)
    assert set(rows["i"]) == {1}


def test_rows_of_other_tables_cost_a_header_each(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bodies are never read: with corrupt bodies, the captured rows are the same."""
    begin = source.at()
    for n in range(20):
        source.run("BEGIN", f"INSERT INTO other VALUES ({n}, 'x')", f"INSERT INTO i VALUES ({n}, 'y')", "COMMIT")
    tables = {(source.database, "i"): source.table("i")}
    mariadb = source.server.flavor == "mariadb"
    binlog_range = BinlogRange(tables, begin, source.at(), mariadb=mariadb)
    feed, found = binlog_range.feed, []

    def spoilt(run: Any) -> Iterator[tuple[Table, str, RowChanges]]:
        kinds = run.headers.kind.tolist()
        rows = [n for n, kind in enumerate(kinds) if kind in (23, 30)]
        for n in rows[::2]:  # the first of each transaction is the other table's
            run.buffer[run.headers.body[n] + 8 : run.headers.end[n]] = 0xEE
        yield from feed(run)

    monkeypatch.setattr(binlog_range, "feed", spoilt)
    for _, _, changes in read_range(source.endpoint, binlog_range, 6000):
        found += changes.rows["id"].to_pylist()
    assert found == list(range(20))


@pytest.mark.parametrize("table", ["i", "other"])
def test_xa_transactions_keep_up(source: Source, table: str) -> None:
    """One dump reads hundreds, faster than the server writes them, captured or not.

    The next range takes one more dump.
    """
    begin, count = source.at(), 300
    transaction = ("XA START '{0}'", f"INSERT INTO {table} VALUES ({{0}}, 'x')", "XA END '{0}'", "XA PREPARE '{0}'")
    began_s = time.monotonic()
    source.run(*(s.format(n) for n in range(count) for s in (*transaction, "XA COMMIT '{0}'")))
    middle, written_s = source.at(), time.monotonic() - began_s
    sessions = [source.server.connect(database=source.database) for _ in range(20)]
    for n, session in enumerate(sessions, count):
        for statement in transaction:
            session.cursor().execute(statement.format(n))
    prepared_at = source.at()
    for n, session in enumerate(sessions, count):
        session.cursor().execute(f"XA COMMIT '{n}'")
        session.close()
    keys, known = list[int](), XaPlaces()
    for start, end, most in ((begin, middle, 1), (middle, prepared_at, 1), (prepared_at, source.at(), 2)):
        before, began_s = _connections(source.server), time.monotonic()
        tables = {(source.database, "i"): source.table("i")}
        binlog_range = BinlogRange(tables, start, end, mariadb=source.server.flavor == "mariadb", places=known)
        for _, _, changes in read_range(source.endpoint, binlog_range, 6000):
            keys += changes.rows["id"].to_pylist()
        took_s, opened = time.monotonic() - began_s, _connections(source.server) - before
        assert opened <= most + 3  # the count itself, and the columns of the table
        assert binlog_range.places is not None
        known = known.after(*binlog_range.places)
        if start == begin:
            assert took_s < written_s
    assert keys == (list(range(count + 20)) if table == "i" else [])
    assert not known.undecided


def _connections(server: Server) -> int:
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])
