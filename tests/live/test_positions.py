"""Places in a binlog: their GTIDs, where they are found again, and whether the server still has the history before them."""

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pymysql
import pytest

from engine.capture.binlog import BinlogStretch
from engine.capture.search import Binlog, NoPlaceError
from engine.capture.segment import gtids_at, read_stretch
from engine.decode.gtid import parse_gtids
from engine.errors import SourceLostError, SpecError, TransientError
from engine.events import Journal
from engine.run.begin import first_epoch
from engine.run.monitor import Committed, Monitor
from engine.settings import parse
from engine.source.ancestry import check_same
from engine.source.catalog import read_table
from engine.source.connect import Connection, Endpoint, describe, explain, open_connection
from engine.source.heads import read_head
from engine.source.positions import Position, binlog_files, current, position_from_dict
from engine.source.replication import open_dump
from tests.servers import PASSWORD, USER, Server
from tests.servers import Server as PrivateServer
from tests.servers.replica import await_executed, executed, promote, replicate

FIRST_ID = 6000
ServerFactory = Callable[..., PrivateServer]


@dataclass
class Place:
    """A position between two transactions, and how many rows were written before it."""

    position: Position
    rows: int
    gtids: str


class Written:
    """A server of the test's own with one table, some files of binlog, and every place in it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
        self.mariadb = server.flavor == "mariadb"
        server.execute("CREATE DATABASE d")
        server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
        self.places: list[Place] = []
        self.rows = 0

    def connection(self) -> Connection:
        return open_connection(self.endpoint)

    def end(self) -> Position:
        with closing(self.connection()) as connection:
            return current(connection, describe(connection))

    def write(self, *, prepare: str = "DO 0") -> None:
        """One row, in a transaction that `prepare` may give a domain or a tag; the place before it is kept."""
        self.places.append(Place(self.end(), self.rows, executed(self.server)))
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(prepare)
            cursor.execute("INSERT INTO d.t VALUES (%s)", (self.rows,))
        self.rows += 1

    def several(self) -> None:
        """Rows of several kinds of GTID, in three files."""
        for number in range(9):
            other = "SET gtid_domain_id = 7" if self.mariadb else "SET gtid_next = 'AUTOMATIC:a_tag'"
            self.write(prepare=other if number % 4 == 1 else "DO 0")
            if number % 3 == 2:
                self.server.execute("FLUSH BINARY LOGS")

    def binlog(self) -> Binlog:
        with closing(self.connection()) as connection:
            files, end = list(binlog_files(connection)), current(connection, describe(connection))
        return Binlog(self.endpoint, FIRST_ID, files, end, self.mariadb)

    def read_from(self, start: Position) -> tuple[list[int], BinlogStretch]:
        """The rows behind a place."""
        with closing(self.connection()) as connection:
            table = read_table(connection, "d", "t")
        stretch = BinlogStretch({("d", "t"): table}, start, self.end(), mariadb=self.mariadb)
        keys = [k for _, _, c in read_stretch(self.endpoint, stretch, FIRST_ID) for k in c.rows["id"].to_pylist()]
        return keys, stretch

    def check(self, position: Position) -> None:
        """`check_same` as a run does it."""
        with closing(self.connection()) as connection:
            check_same(connection, self.endpoint, describe(connection), position, FIRST_ID)

    def anchored(self) -> Position:
        """The end of the binlog as a ledger holds it."""
        end = self.end()
        gtids = gtids_at(self.endpoint, end, FIRST_ID, mariadb=self.mariadb)
        return Position(end.file, end.offset, gtids, read_head(self.endpoint, end.file, FIRST_ID).born)


@pytest.fixture
def written(flavor: str, private_server: ServerFactory) -> Written:
    """On MySQL and on MariaDB."""
    return Written(private_server(flavor, **({"log_slave_updates": 1} if flavor == "mariadb" else {})))


def test_the_gtids_of_every_place_are_the_servers_own(written: Written) -> None:
    """Tags and domains among them, and in every file; MariaDB's order of domains is ours."""
    written.several()
    for place in written.places:
        found = gtids_at(written.endpoint, place.position, FIRST_ID, mariadb=written.mariadb)
        assert found == str(parse_gtids(place.gtids, mariadb=written.mariadb))
    keys, stretch = written.read_from(written.places[0].position)
    assert keys == list(range(9))
    kinds = [
        text
        for text in stretch.transactions.sources
        if (text.startswith("7-") if written.mariadb else "a_tag:" in text)
    ]
    assert len(kinds) == 1  # what the change log shows as `_tm_tx` begins with it


def test_every_place_is_found_by_its_gtids(written: Written) -> None:
    """As on a promoted server: what is behind the place is exactly what had not been there."""
    written.several()
    binlog = written.binlog()
    for place in written.places:
        found = binlog.behind(parse_gtids(place.gtids, mariadb=written.mariadb))
        assert written.read_from(found)[0] == list(range(place.rows, 9))
        assert found.born == read_head(written.endpoint, found.file, FIRST_ID).born


def test_only_places_between_transactions_are_taken_for_such(written: Written) -> None:
    """Of all offsets of a file only those where an event begins and no transaction is open, and its end."""
    written.several()
    binlog = written.binlog()
    starts = {p.position.offset for p in written.places if p.position.file == binlog.files[-2]}
    with closing(written.connection()) as connection:
        size = binlog_files(connection)[binlog.files[-2]]
    found = [n for n in range(4, size + 1, 1 if size < 300 else 7) if binlog.is_between(Position(binlog.files[-2], n))]
    assert all(binlog.is_between(Position(binlog.files[-2], n)) for n in [4, *starts, size])
    assert len(found) < 20
    inside = next(iter(starts)) + 1
    assert not binlog.is_between(Position(binlog.files[-2], inside))


def test_a_start_at_a_time_is_exact(written: Written) -> None:
    """The first transaction committed then or later, wherever it lies; MariaDB's times are whole seconds."""
    now = 0.0
    for _ in range(3):
        written.write()
        written.server.execute("FLUSH BINARY LOGS")
        written.write()
        time.sleep(2.1)
        now = float(written.server.execute("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
        keys, _ = written.read_from(written.binlog().since(round((now - 1.0) * 1_000_000)))
        assert keys == []
    keys, _ = written.read_from(written.binlog().since(round((now - 3.2) * 1_000_000)))
    assert keys == [4, 5]
    with pytest.raises(NoPlaceError, match="purged"):
        written.binlog().since(1_000_000)


def test_the_same_server_is_the_same(written: Written) -> None:
    """After restarts, at the end of a file and in an older one."""
    written.write()
    before = written.anchored()
    written.check(before)
    written.server.restart()
    written.write()
    written.check(before)
    written.check(written.anchored())


def test_a_purged_place_is_named(written: Written) -> None:
    """With what to do."""
    before = written.anchored()
    for _ in range(2):
        written.write()
        written.server.execute("FLUSH BINARY LOGS")
    written.server.execute(f"PURGE BINARY LOGS TO '{written.end().file}'")
    with pytest.raises(SourceLostError, match="was purged") as raised:
        written.check(before)
    assert "redump" in raised.value.hint
    with pytest.raises(SourceLostError) as dumped:
        read_head(written.endpoint, before.file, FIRST_ID)
    assert "has purged" in dumped.value.hint
    with pytest.raises(NoPlaceError, match="purged"):
        written.binlog().behind(parse_gtids(before.gtids or "", mariadb=written.mariadb))


def test_a_reset_server_is_found_at_the_same_place(written: Written) -> None:
    """Reset and written on until file, offset and GTIDs are those of before: the file began at another time."""
    for _ in range(3):
        written.write()
    before = written.anchored()
    time.sleep(1.1)
    written.server.execute("RESET MASTER" if written.mariadb else "RESET BINARY LOGS AND GTIDS")
    with pytest.raises(SourceLostError, match="restored from an older copy, or reset"):
        written.check(before)
    while written.end().order <= before.order:
        written.write()
    with pytest.raises(SourceLostError, match="another file than the one of that name"):
        written.check(before)


def test_a_replica_takes_over(written: Written, private_server: ServerFactory) -> None:
    """The place of each transaction is found on a real replica that logs in files of its own; not when it is behind or diverged."""
    other = private_server(written.server.flavor, **({"log_slave_updates": 1} if written.mariadb else {}))
    replicate(other, written.server)
    written.several()
    await_executed(other, executed(written.server))
    promote(other)
    missing = Place(written.end(), 9, "")
    written.write()
    missing.gtids = executed(written.server)
    there = Written.__new__(Written)
    there.server, there.mariadb, there.rows, there.places = other, written.mariadb, 9, []
    there.endpoint = Endpoint(other.host, other.port, USER, PASSWORD)
    there.write()  # its own
    for place in written.places[:9]:
        found = there.binlog().behind(parse_gtids(place.gtids, mariadb=written.mariadb))
        assert there.read_from(found)[0] == list(range(place.rows, 10))
    if written.mariadb:  # MySQL's set was asked before (`ancestry.contains`)
        with pytest.raises(NoPlaceError, match="diverged"):
            there.binlog().behind(parse_gtids(missing.gtids, mariadb=True))


def test_own_writes_before_ours_are_refused(written: Written, private_server: ServerFactory) -> None:
    """A replica that was written to before it had applied everything of ours has no place that would be right."""
    other = private_server(written.server.flavor, **({"log_slave_updates": 1} if written.mariadb else {}))
    domain = "SET SESSION gtid_domain_id = 9" if written.mariadb else "DO 0"
    with closing(other.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(domain)
        cursor.execute("CREATE DATABASE own")
    replicate(other, written.server)
    written.write()
    deadline = time.monotonic() + 30
    while (
        not other.execute("SELECT 1 FROM information_schema.tables WHERE table_schema = 'd'")
        or not other.execute("SELECT COUNT(*) FROM d.t")[0][0]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    promote(other)
    there = Written.__new__(Written)
    there.server, there.mariadb = other, written.mariadb
    there.endpoint = Endpoint(other.host, other.port, USER, PASSWORD)
    with pytest.raises(NoPlaceError, match="diverged"):
        there.binlog().behind(parse_gtids(executed(written.server), mariadb=written.mariadb))


def _blocking_dump(server: Server, position: Position) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
    """A dump like another program's, whose server id is ours."""
    connection = server.connect(read_timeout=20)
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
        cursor.execute("SET @mariadb_slave_capability = 4, @slave_uuid = 'b4ecf2b5-0000-11f1-a4fc-02fc00000001'")
        cursor.execute("SET @replica_uuid = @slave_uuid")
    request = struct.pack("<IHI", position.offset, 0, FIRST_ID) + position.file.encode()
    connection._execute_command(0x12, request)
    return connection


def test_a_stolen_server_id_is_worth_another_try(written: Written) -> None:
    """The server ends the older dump; the error names the cause and the setting."""
    written.write()
    first = _blocking_dump(written.server, written.places[0].position)
    for _ in range(2):
        first._read_packet()
    second = _blocking_dump(written.server, written.places[0].position)

    def read_on() -> None:
        for _ in range(100):
            first._read_packet()
            written.write()

    with pytest.raises(pymysql.Error) as raised:
        read_on()
    second.close()
    error = explain(raised.value, "Reading the binlog")
    assert isinstance(error, TransientError), error
    assert "source.server_id" in error.hint


@pytest.fixture
def stopped(written: Written) -> Iterator[Callable[[], None]]:
    """Stops the server's process in mid-flight."""
    assert written.server.process is not None
    pid = written.server.process.pid
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def test_a_silent_server_is_not_waited_for(written: Written, stopped: Callable[[], None]) -> None:
    """A dump that brings nothing for `silence_s` is cut off, with an error that says so; its connection never closes."""
    start = written.end()
    written.server.execute("CREATE TABLE d.large (id INT PRIMARY KEY AUTO_INCREMENT, t LONGTEXT)")
    for _ in range(8):
        written.server.execute("INSERT INTO d.large (t) VALUES (REPEAT('x', 8000000))")
    connection = written.connection()
    dump = open_dump(connection, start.file, start.offset, FIRST_ID, 1.0)
    stopped()
    began = time.monotonic()
    with pytest.raises(TransientError, match="was silent for 1 s"):
        for _ in dump.blocks():
            pass
    assert time.monotonic() - began < 10
    connection._force_close()


def _begun(written: Written, startup: str) -> Position:
    """The position of epoch 0 of a pipeline with this startup mode."""
    text = f"""
name = "shop"
[source]
host = "{written.server.host}"
port = {written.server.port}
user = "{USER}"
tables = ["d.*"]
startup = "{startup}"
[sink]
type = "delta"
path = "lake"
"""
    spec = parse(text, Path("/specs/shop.toml"))
    with closing(written.connection()) as connection:
        begun = first_epoch(spec, connection, written.endpoint, describe(connection), "run")
    (table,) = begun.record["tables"].values()
    assert [chunk["exact"] for chunk in table["chunks"]] == [begun.record["to"]]  # followed, not copied
    position = position_from_dict(begun.record["to"])
    assert position.gtids == gtids_at(written.endpoint, position, FIRST_ID, mariadb=written.mariadb)
    assert position.born == read_head(written.endpoint, position.file, FIRST_ID).born
    return position


def test_startup_modes_begin_where_they_say(written: Written) -> None:
    """At a place, behind GTIDs, at a time, at the beginning and at the end."""
    written.several()
    for place in written.places[2::3]:
        at = f"{place.position.file}:{place.position.offset}"
        assert written.read_from(_begun(written, f"position:{at}"))[0] == list(range(place.rows, 9))
        assert written.read_from(_begun(written, f"gtid:{place.gtids}"))[0] == list(range(place.rows, 9))
    time.sleep(2.1)
    now = datetime.fromtimestamp(float(written.server.execute("SELECT UNIX_TIMESTAMP()")[0][0]), UTC)
    time.sleep(1.1)
    written.write()
    stamp = f"timestamp:{now:%Y-%m-%dT%H:%M:%S}Z"
    written.server.execute("FLUSH BINARY LOGS")
    assert written.read_from(_begun(written, stamp))[0] == [9]
    assert written.read_from(_begun(written, "earliest"))[0] == list(range(10))
    assert written.read_from(_begun(written, "latest"))[0] == []


def test_starts_that_are_impossible_are_refused_by_name(written: Written) -> None:
    """Nothing is started and nothing is guessed; each says why."""
    written.several()
    place = written.places[4]
    file, offset = place.position.file, place.position.offset
    foreign = "0-99999-7" if written.mariadb else "b4ecf2b5-e602-11f1-a4fc-02fc00000001:1-3"
    mysql, mariadb = "b4ecf2b5-e602-11f1-a4fc-02fc00000001:1", "0-1-1"
    cases = {
        f"position:{file}:{offset + 1}": "not a place between two transactions",
        f"position:{file}:999999": "bytes",
        "position:nothing.000001:4": "there is no such file",
        "timestamp:2124-01-01T00:00:00Z": "has not come yet",
        "timestamp:2024-01-01T00:00:00Z": "purged",
        f"gtid:{foreign}": "has not executed all of these",
        f"gtid:{mysql if written.mariadb else mariadb}": "these are not GTIDs of this server",
    }
    for startup, says in cases.items():
        with pytest.raises(SpecError, match=says) as raised:
            _begun(written, startup)
        assert raised.value.hint
    written.server.execute(f"PURGE BINARY LOGS TO '{written.end().file}'")
    with pytest.raises(SpecError, match="purged"):
        _begun(written, f"gtid:{place.gtids}")


def test_the_runway_is_measured(flavor: str, private_server: ServerFactory, tmp_path: Path) -> None:
    """From when the position's file was closed and what the server keeps; nothing is told where nothing is purged."""
    written = Written(private_server(flavor, binlog_expire_logs_seconds=1000))
    written.write()
    old = written.end()
    written.server.execute("FLUSH BINARY LOGS")
    time.sleep(3.1)
    end = written.end()
    journal = Journal(tmp_path / "run.jsonl", "run")
    for position, least, most in ((old, 900, 997), (end, 1000, 1000), (Position("x-bin.000000", 4), 0, 0)):
        monitor = Monitor(written.endpoint, FIRST_ID, journal, partial(Committed, position, 0))
        with closing(monitor), closing(written.connection()) as connection:
            assert least <= monitor.measure(connection)["runway_s"] <= most
    written.server.execute("SET GLOBAL binlog_expire_logs_seconds = 0")
    monitor = Monitor(written.endpoint, FIRST_ID, journal, lambda: Committed(old, 0))
    with closing(monitor), closing(written.connection()) as connection:
        assert monitor.measure(connection)["runway_s"] is None
    journal.close()
