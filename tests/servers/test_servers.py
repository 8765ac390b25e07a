"""The test servers are what the other tests believe them to be."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.conftest import DatabaseFactory, ServerFactory
from tests.servers import NEWEST, PASSWORD, USER, Server, create_user

START_AND_DIE = """
import os, signal, sys
from tests.servers import start
server = start(sys.argv[1])
print(server.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def variable(server: Server, name: str) -> Any:
    """A global variable's value."""
    return server.execute(f"SELECT @@global.{name}")[0][0]


def test_defaults_are_what_tidemark_needs(server: Server) -> None:
    """A default server writes full row images with names, flushed at each commit, under its own server id."""
    assert variable(server, "log_bin") == 1
    assert variable(server, "binlog_format") == "ROW"
    assert variable(server, "binlog_row_image") == "FULL"
    assert variable(server, "binlog_row_metadata") == "FULL"
    assert variable(server, "sync_binlog") == 1
    assert variable(server, "server_id") == server.server_id
    assert variable(server, "port") == server.port
    if server.flavor == "mysql":
        assert variable(server, "gtid_mode") == "ON"
        assert server.execute("SELECT LOCAL IS NOT NULL FROM performance_schema.log_status") == ((1,),)


def test_the_newest_mariadb_has_the_same_users(newest: Server, new_database: DatabaseFactory) -> None:
    """MariaDB's newest LTS starts from a private prefix, with the users of every server."""
    assert tuple(map(int, newest.version.split("."))) >= tuple(map(int, NEWEST.split(".")))
    assert newest.flavor == "mariadb"
    test_tidemark_may_read_tables_and_the_binlog_and_nothing_else(newest, new_database(newest))


def test_tidemark_may_read_tables_and_the_binlog_and_nothing_else(server: Server, database: str) -> None:
    """The user ``tidemark`` reads tables and binlog positions; a write is refused."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1)")
    show = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
    with closing(server.connect(user=USER, password=PASSWORD)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM `{database}`.t")
        assert cursor.fetchall() == ((1,),)
        cursor.execute(show)
        assert cursor.fetchall()[0][0].startswith(f"{server.flavor}-bin.")
        cursor.execute("SHOW BINARY LOGS")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute(f"INSERT INTO `{database}`.t VALUES (2)")


def test_grants_can_be_less(server: Server) -> None:
    """`create_user` gives exactly the requested grants."""
    create_user(server, "select_only", ["SELECT ON mysql.*"])
    with closing(server.connect(user="select_only", password=PASSWORD)) as connection:
        cursor = connection.cursor()
        with pytest.raises(pymysql.err.OperationalError):
            cursor.execute("SHOW BINARY LOGS")
    server.execute("DROP USER select_only")


def test_options_reach_the_server(server_with: ServerFactory, flavor: str) -> None:
    """Named options and any other server option are in force."""
    server = server_with(
        flavor,
        gtid=False,
        row_metadata="MINIMAL",
        time_zone="+05:30",
        charset="latin1",
        sync_binlog=0,
        net_read_timeout=77,
    )
    assert variable(server, "binlog_row_metadata") == "MINIMAL"
    assert variable(server, "time_zone") == "+05:30"
    assert variable(server, "character_set_server") == "latin1"
    assert variable(server, "sync_binlog") == 0
    assert variable(server, "net_read_timeout") == 77
    if flavor == "mysql":
        assert variable(server, "gtid_mode") == "OFF"


def test_servers_are_shared(server_with: ServerFactory, flavor: str) -> None:
    """The same options give the same server, other options another with a uuid of its own."""
    one, same, other = server_with(flavor), server_with(flavor, gtid=True), server_with(flavor, gtid=False)
    assert one is same
    assert one is not other
    assert one.port != other.port
    if flavor == "mysql":
        assert variable(one, "server_uuid") != variable(other, "server_uuid")


def test_tls_is_verifiable(server_with: ServerFactory, flavor: str) -> None:
    """With ``tls=True`` a client that verifies name and authority is served over TLS."""
    server = server_with(flavor, tls=True)
    settings = {"ssl_ca": str(server.ca_file), "ssl_verify_cert": True, "ssl_verify_identity": True}
    with closing(server.connect(user=USER, password=PASSWORD, **settings)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchall()[0][1]


def test_tls_is_off_by_default(server: Server) -> None:
    """Without the option a client that insists on TLS is refused."""
    with pytest.raises(pymysql.err.OperationalError, match="SSL"):
        server.connect(ssl={"check_hostname": False})


def test_a_committed_row_survives_a_kill(private_server: ServerFactory, flavor: str) -> None:
    """After `kill` and `restart` the same port serves the same data, and changed options are in force."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO d.t VALUES (7)")
    server.kill()
    assert not server.alive
    with pytest.raises(pymysql.err.OperationalError):
        server.connect(connect_timeout=1)
    server.restart(row_metadata="MINIMAL")
    assert server.execute("SELECT id FROM d.t") == ((7,),)
    assert variable(server, "binlog_row_metadata") == "MINIMAL"
    server.stop()
    folder = server.folder
    server.close()
    assert not folder.exists()


def test_a_server_dies_with_its_process(flavor: str) -> None:
    """When the starting process is killed, the kernel kills the server."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", START_AND_DIE, flavor], cwd=root, capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(pid)


def test_each_test_has_a_database_of_its_own(server: Server, new_database: DatabaseFactory) -> None:
    """`new_database` makes as many as are asked for."""
    first, second = new_database(server), new_database(server)
    assert first != second
    assert server.execute(
        "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN (%s, %s)", (first, second)
    ) == ((2,),)


def _wait_until_gone(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        time.sleep(0.05)
