"""Reads that wait for a lock on the source: which table, who holds it, and what an account may see of that."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pymysql
import pytest

from engine.base.errors import TidemarkError
from engine.source.blocked_reads import BlockedRead, blocked_reads
from engine.source.connect import Endpoint, open_connection, quote
from engine.source.packets import prepare
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import ServerFactory
from tests.servers import PASSWORD, USER, Server
from tests.servers.users import GRANTS, create_user
from tests.support.patience import PATIENCE_S

LOCKS = {"mariadb": {"performance_schema": 1, "performance_schema_instrument": "wait/lock/metadata/sql/mdl=ON"}}


def test_the_session_that_blocks_a_read_is_named_exactly(flavor: str, private_server: ServerFactory) -> None:
    """`LOCK TABLES`, and an ALTER that waits for an open transaction; with the account's usual rights."""
    server = private_server(flavor, **LOCKS.get(flavor, {}))
    filled(server)
    with session(server) as holder:
        holder("LOCK TABLES d.t WRITE")
        with reading(server, "t"):
            (found,) = until_blocked(server, USER)
            mine = holder("SELECT CONNECTION_ID()")
            server.execute(found.hint.partition("end it there: ")[2])
            wait_for(lambda: not blocked_now(server, USER))
    assert (found.table, found.lock, found.reads, found.unseen) == ("d.t", "table metadata lock", 1, "")
    (one,) = found.sessions
    assert (one.connection, one.user, one.host) == (mine, "root", "127.0.0.1")
    assert (one.role, one.lock, one.idle) == ("holds", "SHARED_NO_READ_WRITE", True)
    if flavor == "mysql":  # MariaDB keeps no last statement by default
        assert one.statement == "LOCK TABLES d.t WRITE"
    with session(server) as holder, ExitStack() as stack:
        holder("BEGIN")
        holder("SELECT COUNT(*) FROM d.t WHERE v <> 'a secret of a row' AND id < 99")
        stack.enter_context(running(server, "ALTER TABLE d.t ADD COLUMN w INT"))
        wait_for(lambda: server.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata%'"))
        stack.enter_context(reading(server, "t"))
        (found,) = until_blocked(server, USER)
        assert [one.role for one in found.sessions] == ["holds", "waits"]
        assert found.sessions[0].connection == holder("SELECT CONNECTION_ID()")
        assert found.sessions[1].statement == "ALTER TABLE d.t ADD COLUMN w INT"
        if flavor == "mysql":
            assert found.sessions[0].statement == "SELECT COUNT(*) FROM d.t WHERE v <> ? AND id < ?"
        holder("ROLLBACK")
        wait_for(lambda: not blocked_now(server, USER))


def test_a_table_lock_of_myisam_is_a_blocked_read_too(server: Server, database: str) -> None:
    """The server shows no holder of such a lock: the statement that names the table may be it."""
    server.execute(f"CREATE TABLE `{database}`.m (id INT PRIMARY KEY, v INT) ENGINE = MyISAM")
    server.execute(f"INSERT INTO `{database}`.m VALUES (1, 1)")
    create_user(server, "watcher", [*GRANTS, "PROCESS ON *.*"])
    with running(server, f"UPDATE `{database}`.m SET v = SLEEP(30)") as writer:
        wait_for(lambda: server.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'"))
        with reading(server, "m", database, user="watcher"):
            found = next(one for one in until_blocked(server, "watcher") if one.table == f"{database}.m")
        assert found.lock == "table level lock"
        assert (found.sessions[0].role, found.sessions[0].connection) == ("may hold", writer)
        server.execute(f"KILL {writer}")


def test_an_account_that_sees_no_holder_is_given_the_grant(flavor: str, private_server: ServerFactory) -> None:
    """The hint is run, and shows more: on MySQL the holder, on MariaDB the sessions that may hold the lock."""
    server = private_server(flavor)
    filled(server)
    create_user(server, "blind", ["SELECT ON d.*", *GRANTS[1:]])
    with session(server) as holder:
        holder("LOCK TABLES d.t WRITE")
        with reading(server, "t", user="blind"):
            (found,) = until_blocked(server, "blind")
            assert (found.table, found.sessions) == ("d.t", ())
            assert found.unseen == "The account does not see the sessions of others"
            server.execute(found.hint.partition("on the source: ")[2])
            (found,) = until_blocked(server, "blind")
    assert [one.role for one in found.sessions] == ["holds" if flavor == "mysql" else "may hold"]
    assert found.sessions[0].user == "root"


def test_the_plugin_of_mariadb_names_the_holder(newest: Server, new_database: Callable[..., str]) -> None:
    """It can be installed while the server runs, as the hint says."""
    database = new_database(newest)
    filled(newest, database)
    create_user(newest, "watcher", [*GRANTS, "PROCESS ON *.*"])
    with session(newest) as holder, reading(newest, "t", database, user="watcher", after=holder):
        (found,) = until_blocked(newest, "watcher")
        assert found.unseen == "The server does not say who holds the lock: one of these may"
        newest.execute(found.hint.partition("on the source: ")[2])
        try:
            (found,) = until_blocked(newest, "watcher")
        finally:
            newest.execute("UNINSTALL SONAME 'metadata_lock_info'")
        (one,) = found.sessions
        assert (one.role, one.lock, found.unseen) == ("holds", "SHARED_NO_READ_WRITE", "")
        assert one.connection == holder("SELECT CONNECTION_ID()")


def test_a_run_shows_what_blocks_its_reads(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """While it starts, and while it copies: in `status`, in the journal and as an alert, until the lock is released."""
    table = f"{database}.t"
    filled(server, database)
    pipeline = new_pipeline(server, database, more="[alerts]\nfor_s = 1.0\n")

    def of(event: str) -> list[dict[str, Any]]:
        return [one for one in pipeline.events(event) if one["kind"] == "read_blocked" and one["table"] == table]

    def named() -> list[dict[str, Any]]:
        return [one for one in pipeline.status()["blocked"] if one["table"] == table]

    with session(server) as holder:
        holder(f"LOCK TABLES {quote(database, 't')} WRITE")
        runner = pipeline.start("--until", "snapshot")
        pipeline.wait_for(lambda: of("alert.raised") and named(), runner)
        assert named()[0]["lock"] == "table metadata lock"
        text = pipeline.command("status").stdout
        assert f"Reads of {table} have waited for a table metadata lock" in " ".join(text.split())
        if server.flavor == "mysql":
            assert named()[0]["sessions"][0]["connection"] == holder("SELECT CONNECTION_ID()")
        else:
            assert "GRANT PROCESS ON *.* TO" in of("alert.raised")[0]["hint"]
        holder("UNLOCK TABLES")
    assert runner.wait(timeout=PATIENCE_S) == 0, pipeline.output[-3000:]
    assert [one["since"] is not None for one in pipeline.events("source.blocked")][-1] is False
    assert len(of("alert.cleared")) == len({one["since"] for one in of("alert.raised")})
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"), ["id"])


@pytest.mark.parametrize("phase", ["start", "redump"])
def test_the_shown_grant_helps_the_run_that_shows_it(
    server: Server, database: str, new_pipeline: PipelineFactory, phase: str
) -> None:
    """A global privilege counts only for later connections: the run opens one, while it starts and while it copies."""
    filled(server, database)
    user = f"blind_{phase}"
    create_user(server, user, [f"SELECT ON `{database}`.*", *GRANTS[1:]])
    pipeline = new_pipeline(server, database, user=user, poll=0.2)

    def seen() -> list[dict[str, Any]]:
        return [one for one in pipeline.status()["blocked"] if one["table"] == f"{database}.t"]

    runner = pipeline.start_streaming() if phase == "redump" else None
    with session(server) as holder:
        holder(f"LOCK TABLES {quote(database, 't')} WRITE")
        if runner is None:
            runner = pipeline.start()
        else:
            assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
        pipeline.wait_for(lambda: [one for one in seen() if one["unseen"]], runner)
        (blind,) = seen()
        assert blind["unseen"] == "The account does not see the sessions of others"
        server.execute(
            "GRANT SELECT ON *.* TO %s" if server.flavor == "mysql" else "GRANT PROCESS ON *.* TO %s", (user,)
        )
        mine = holder("SELECT CONNECTION_ID()")
        pipeline.wait_for(lambda: mine in [one["connection"] for found in seen() for one in found["sessions"]], runner)
        holder("UNLOCK TABLES")
    pipeline.wait_for(lambda: not seen(), runner)
    pipeline.finish(runner)


def filled(server: Server, database: str = "d") -> None:
    """A table with rows; in the database `d`, which is created, unless another one is named."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v VARCHAR(99))")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 'one'), (2, 'two')")


@contextmanager
def session(server: Server) -> Iterator[Callable[[str], Any]]:
    """A session of root: each call runs a statement and returns the first value."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            row = cursor.fetchone()
            return row[0] if row else None

        yield run


@contextmanager
def running(server: Server, statement: str) -> Iterator[int]:
    """A statement of root that does not end by itself, in the background. Yields its connection."""
    connection = server.connect()

    def run() -> None:
        with closing(connection), connection.cursor() as cursor, suppress(pymysql.Error):  # it may be killed
            cursor.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    yield int(connection.thread_id())
    thread.join(PATIENCE_S)


@contextmanager
def reading(
    server: Server, table: str, database: str = "d", user: str = USER, after: Callable[[str], Any] | None = None
) -> Iterator[None]:
    """A read of the table by an account, as a reader does it; it is ended afterwards. after: locks the table before."""
    if after is not None:
        after(f"LOCK TABLES {quote(database, table)} WRITE")
    connection = open_connection(Endpoint(server.host, server.port, user, PASSWORD))

    def run() -> None:
        with closing(connection), suppress(TidemarkError):  # it is killed
            # Behind an ALTER, the preparation waits; with a table lock of MyISAM, the execution.
            prepare(connection, f"SELECT * FROM {quote(database, table)}", "Reading").execute("Reading")

    thread = threading.Thread(target=run)
    identity = connection.thread_id()
    thread.start()
    try:
        yield
    finally:
        with suppress(pymysql.Error):  # it may have ended
            server.execute(f"KILL {identity}")
        thread.join(PATIENCE_S)


def blocked_now(server: Server, user: str) -> list[BlockedRead]:
    """The blocked reads that this account sees."""
    with closing(open_connection(Endpoint(server.host, server.port, user, PASSWORD))) as connection:
        return blocked_reads(connection)


def until_blocked(server: Server, user: str) -> list[BlockedRead]:
    """As `blocked_now`, once there is one."""
    wait_for(lambda: blocked_now(server, user))
    return blocked_now(server, user)


def wait_for(found: Callable[[], object]) -> None:
    """Wait for a state."""
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)
