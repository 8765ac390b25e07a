"""Binlog positions: their GTIDs, and how they are found on another server.

Also whether the server has the history before them.
"""

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest

from engine.base.errors import SourceLostError, TransientError
from engine.capture.binlog.binlog_reader import gtids_at
from engine.capture.binlog.position_search import NoPlaceError
from engine.decode.gtid import parse_gtids
from engine.source.connect import explain
from engine.source.heads import read_head
from engine.source.positions import Position, binlog_files
from engine.source.replication import open_dump
from tests.live.support.known_positions import FIRST_ID, Place, ServerFactory, Written
from tests.servers import Server
from tests.servers.replica import await_executed, executed, promote, replicate
from tests.support.patience import PATIENCE_S


def test_the_gtids_of_every_place_are_the_servers_own(written: Written) -> None:
    """With tags and domains, in every file; MariaDB's domains are in our order."""
    written.several()
    for place in written.places:
        found = gtids_at(written.endpoint, place.position, FIRST_ID, mariadb=written.mariadb)
        assert found == str(parse_gtids(place.gtids, mariadb=written.mariadb))
    keys, binlog_range = written.read_from(written.places[0].position)
    assert keys == list(range(9))
    kinds = [
        text
        for text in binlog_range.transactions.sources
        if (text.startswith("7-") if written.mariadb else "a_tag:" in text)
    ]
    assert len(kinds) == 1  # what the change log shows as `_tm_tx` begins with it


def test_every_place_is_found_by_its_gtids(written: Written) -> None:
    """As on a promoted server: behind the position are exactly the transactions that were missing."""
    written.several()
    binlog = written.binlog()
    for place in written.places:
        found = binlog.position_after(parse_gtids(place.gtids, mariadb=written.mariadb))
        assert written.read_from(found)[0] == list(range(place.rows, 9))
        assert found.born == read_head(written.endpoint, found.file, FIRST_ID).born


def test_only_places_between_transactions_are_taken_for_such(written: Written) -> None:
    """Of all offsets in a file, only event starts outside transactions and the file's end are accepted."""
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
    """The error names the position and the remedy."""
    before = written.anchored()
    for _ in range(2):
        written.write()
        written.server.execute("FLUSH BINARY LOGS")
    written.server.purge_binlogs(written.end().file)
    with pytest.raises(SourceLostError, match="was purged") as raised:
        written.check(before)
    assert "redump" in raised.value.hint
    with pytest.raises(SourceLostError) as dumped:
        read_head(written.endpoint, before.file, FIRST_ID)
    assert "has purged" in dumped.value.hint
    with pytest.raises(NoPlaceError, match="purged"):
        written.binlog().position_after(parse_gtids(before.gtids or "", mariadb=written.mariadb))


def test_a_reset_server_is_found_at_the_same_place(written: Written) -> None:
    """Reset and written until file, offset and GTIDs match: the file's creation time differs."""
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
    """Each transaction's position is found on a real replica with files of its own.

    Unless it is behind or has diverged.
    """
    other = private_server(written.server.flavor, **({"log_slave_updates": 1} if written.mariadb else {}))
    replicate(other, written.server)
    written.several()
    await_executed(other, executed(written.server))
    promote(other)
    missing = Place(written.end(), 9, "")
    written.write()
    missing.gtids = executed(written.server)
    there = Written(other, rows=9)
    there.write()  # its own
    for place in written.places[:9]:
        found = there.binlog().position_after(parse_gtids(place.gtids, mariadb=written.mariadb))
        assert there.read_from(found)[0] == list(range(place.rows, 10))
    if written.mariadb:  # MySQL's set was asked before (`ancestry.contains`)
        with pytest.raises(NoPlaceError, match="diverged"):
            there.binlog().position_after(parse_gtids(missing.gtids, mariadb=True))


def test_own_writes_before_ours_are_refused(written: Written, private_server: ServerFactory) -> None:
    """A replica that was written to before it had applied everything has no correct position."""
    other = private_server(written.server.flavor, **({"log_slave_updates": 1} if written.mariadb else {}))
    domain = "SET SESSION gtid_domain_id = 9" if written.mariadb else "DO 0"
    with closing(other.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(domain)
        cursor.execute("CREATE DATABASE own")
    replicate(other, written.server)
    written.write()
    deadline = time.monotonic() + PATIENCE_S
    while (
        not other.execute("SELECT 1 FROM information_schema.tables WHERE table_schema = 'd'")
        or not other.execute("SELECT COUNT(*) FROM d.t")[0][0]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    promote(other)
    there = Written(other, rows=1)
    with pytest.raises(NoPlaceError, match="diverged"):
        there.binlog().position_after(parse_gtids(executed(written.server), mariadb=written.mariadb))


def _blocking_dump(server: Server, position: Position) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
    """A dump by another program that uses our server id."""
    connection = server.connect(read_timeout=20)
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
        cursor.execute("SET @mariadb_slave_capability = 4, @slave_uuid = 'b4ecf2b5-0000-11f1-a4fc-02fc00000001'")
        cursor.execute("SET @replica_uuid = @slave_uuid")
    request = struct.pack("<IHI", position.offset, 0, FIRST_ID) + position.file.encode()
    connection._execute_command(0x12, request)
    return connection


def test_a_stolen_server_id_is_worth_another_try(written: Written) -> None:
    """The server ends the older dump; the error names the cause and the setting, and is transient."""
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
    """Suspend the server's process."""
    assert written.server.process is not None
    pid = written.server.process.pid
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def test_a_silent_server_is_not_waited_for(written: Written, stopped: Callable[[], None]) -> None:
    """A dump without data for `silence_s` fails with an error that says so, even though its connection never closes."""
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
