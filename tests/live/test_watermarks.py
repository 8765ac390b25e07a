"""Watermarks: a naive low watermark loses rows on a busy server, Tidemark's lose none."""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any

import numpy as np
import pytest

from engine.base.errors import SourceLostError
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import gtids_at, read_range
from engine.capture.binlog.commit_visibility import CommitVisibility
from engine.capture.binlog.xa_visibility import XaVisibility
from engine.decode.gtid import joined
from engine.decode.schema import Table
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection, query
from engine.source.positions import Position, current
from engine.source.preflight import server_preflight
from engine.source.watermarks import (
    Candidate,
    WatermarkClass,
    Watermarks,
    replica_wait_s,
    server_time_s,
    watermark_class,
)
from engine.spec.settings import Source
from tests.servers import PASSWORD, USER, Server, create_user
from tests.support.depth import depth

CHECKS = depth(2_000, 50_000)
WRITERS, XA_SESSIONS = 2, 12
XA_CHECKS = depth(100, 3_000)
"""Twelve sessions leave little of two processors. The snapshot's position alone fails one check in forty."""
XA_PAUSE_S = 0.003
TABLE = Table("d", "t", (), ())


def _insert_for_ever(
    host: str, port: int, database: str, numbers: list[int], xa: bool, parent: int, ended: Any
) -> None:
    """Some writers: single-row transactions with ascending ids, as fast as possible.

    They end when the parent process is gone.
    """
    threads = [
        Thread(target=_insert, args=(host, port, database, writer, xa, parent, ended), daemon=True)
        for writer in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _insert(host: str, port: int, database: str, writer: int, xa: bool, parent: int, ended: Any) -> None:
    import pymysql

    connection = pymysql.connect(host=host, port=port, user="root", database=database, autocommit=True)
    cursor, number = connection.cursor(), 0
    while os.getppid() == parent and not ended.is_set():
        number += 1
        if xa:  # the search for what they commit must be faster than they are, on a busy machine too
            time.sleep(XA_PAUSE_S)
        xid, insert = f"'{database}','{writer}-{number % 4}'", f"INSERT INTO t VALUES ({writer}, {number})"
        statements = ("XA START {}", insert, "XA END {}", "XA PREPARE {}", "XA COMMIT {}") if xa else (insert,)
        for statement in statements:
            cursor.execute(statement.format(xid))


def _ask_for_ever(host: str, port: int, parent: int, ended: Any) -> None:
    """Another reader: it opens snapshots and asks for their positions, as fast as possible."""
    import pymysql

    connection = pymysql.connect(host=host, port=port, user="root")
    cursor = connection.cursor()
    while os.getppid() == parent and not ended.is_set():
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for _ in range(10):
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            cursor.fetchall()
        cursor.execute("COMMIT")


@contextmanager
def other_readers(server: Server, count: int) -> Any:
    """Other readers, in processes of their own."""
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    arguments = (server.host, server.port, os.getpid(), ended)
    processes = [context.Process(target=_ask_for_ever, args=arguments, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        ended.set()
        for process in processes:
            process.join()


@contextmanager
def writers(server: Server, database: str, sessions: int = WRITERS, *, xa: bool = False, engine: str = "InnoDB") -> Any:
    """Tight insert loops in processes of their own; each writer's rows become visible in ascending order."""
    columns = "writer INT, number INT, PRIMARY KEY (writer, number)"
    server.execute(f"CREATE TABLE `{database}`.t ({columns}) ENGINE = {engine}")
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    groups = [list(range(sessions))[n::WRITERS] for n in range(WRITERS)]
    arguments = [(server.host, server.port, database, group, xa, os.getpid(), ended) for group in groups]
    processes = [context.Process(target=_insert_for_ever, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    try:
        while server.execute(f"SELECT COUNT(DISTINCT writer) FROM `{database}`.t")[0][0] < sessions:
            assert all(process.is_alive() for process in processes), "a writer has ended"
            time.sleep(0.05)
        yield
    finally:
        ended.set()  # not killed: prepared transactions would keep their locks
        for process in processes:
            process.join()


def _lost(
    server: Server,
    database: str,
    low: Callable[[Any], Position],
    done: Callable[[], Position | None],
    checks: int,
    sessions: int = WRITERS,
) -> int:
    """In how many of `checks` the low watermark covered a commit that a later read did not see.

    done: called after the read; returns the high watermark, if there is one. The read must not show a commit after it.
    """
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        begin = current(connection, describe(connection))
        table = read_table(connection, database, "t")
        select = " UNION ALL ".join(
            f"SELECT COALESCE(MAX(number), 0) FROM `{database}`.t WHERE writer = {w}" for w in range(sessions)
        )
        taken: list[tuple[Position, tuple[int, ...], Position | None]] = []
        with connection.cursor() as cursor:
            for _ in range(checks):
                position = low(connection)
                cursor.execute(select)
                seen = tuple(row[0] for row in cursor.fetchall())
                taken.append((position, seen, done()))
        end = current(connection, describe(connection))
    binlog_range = BinlogRange({(database, "t"): table}, begin, end, mariadb=server.flavor == "mariadb")
    parts = [changes for _, _, changes in read_range(endpoint, binlog_range, 77_000)]
    writer, number = (np.concatenate([p.rows[name].to_numpy() for p in parts]) for name in ("writer", "number"))
    order = np.concatenate([p.fact("file") << 40 | p.fact("offset") for p in parts])
    lows = np.array([position.order[0] << 40 | position.order[1] for position, _, _ in taken])
    highs = np.array([high.order[0] << 40 | high.order[1] if high else 1 << 62 for _, _, high in taken])
    lost = np.zeros(len(taken), bool)
    for w in range(sessions):
        of_writer, newest = order[writer == w], np.concatenate([[0], number[writer == w]])
        shown = np.array([row[w] for _, row, _ in taken])
        lost |= newest[np.searchsorted(of_writer, lows, side="right")] > shown
        before_high = np.searchsorted(of_writer, highs, side="right")
        assert (shown <= newest[before_high])[
            before_high > 0
        ].all()  # its rows from before `begin` are not in the range
    return int(lost.sum())


def test_the_published_low_watermark_loses_rows(server_with: Callable[..., Server], new_database: Any) -> None:
    """On MySQL with sync_binlog=1 the binlog's end, taken before a read, covers commits that the read does not see."""
    server = server_with("mysql")
    database = new_database(server)
    described: list[Any] = []

    def naive(connection: Any) -> Position:
        described[:] = described or [describe(connection)]
        return current(connection, described[0])

    lost = 0
    with writers(server, database):
        for _ in range(10):  # how many it loses depends on the machine
            lost += _lost(server, database, naive, lambda: None, 1_000)
            if lost > 20:
                return
    raise AssertionError(f"it lost only {lost} rows")


UNORDERED = {"binlog_order_commits": 0}
LOG_STATUS = {"gtid": False}, ["BACKUP_ADMIN ON *.*"], "log_status"


@pytest.mark.parametrize(
    ("flavor", "options", "grants", "kind", "sessions", "xa"),
    [
        ("mysql", {}, [], "gtid", WRITERS, False),
        ("mysql", LOG_STATUS[0], *LOG_STATUS[1:], WRITERS, False),
        ("mariadb", {}, [], "snapshot", WRITERS, False),
        ("mysql", UNORDERED, [], "gtid", XA_SESSIONS, True),
        ("mysql", LOG_STATUS[0] | UNORDERED, *LOG_STATUS[1:], XA_SESSIONS, True),
        ("mariadb", {}, [], "snapshot", XA_SESSIONS, True),
        ("mysql", UNORDERED, [], "gtid", XA_SESSIONS, False),
        ("mysql", LOG_STATUS[0] | UNORDERED, *LOG_STATUS[1:], XA_SESSIONS, False),
    ][: depth(6, 8)],
)
def test_ours_lose_none(
    server_with: Callable[..., Server],
    new_database: Any,
    flavor: str,
    options: dict[str, Any],
    grants: list[str],
    kind: WatermarkClass,
    sessions: int,
    xa: bool,
) -> None:
    """In thousands of checks under tight insert loops, no class of low watermark covers a commit that the read misses.

    Nor in XA transactions, whose commits MariaDB logs long before they are visible, or with commits in any order.
    (There, log_status itself loses one row in 200 checks.) Nor when other readers ask for their snapshots' positions:
    MariaDB may answer with one of those.
    """
    server = server_with(flavor, **options)
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*", *grants])
    database = new_database(server)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    held: list[Watermarks] = []
    readers: list[_BinlogReader] = []

    def low(connection: Any) -> Position:
        if not held:
            described = describe(connection)
            # Its commits are in any order, so the class is not proved. The reader began when they were not.
            unproved = kind == "log_status" and options != LOG_STATUS[0]
            assert watermark_class(connection, described) == ("aged" if unproved else kind)
            held.append(_watermarks(endpoint, connection, kind, 1.0))
            known(current(connection, described))
            if kind == "gtid":
                readers.append(_BinlogReader(endpoint, connection))
        for each in readers:
            each.offer(connection, held[0])
        return held[0].low()

    def known(position: Position) -> None:
        """As a run does: else each search for XA COMMITs would begin with the file, which grows without end."""
        if kind == "snapshot":
            held[0].offer(Candidate(position, 0.0))

    lows: list[Position] = []

    def release() -> Position | None:
        high = held[0].high(lows.pop(), TABLE)
        held[0].release()
        known(high)
        return high

    def kept_low(connection: Any) -> Position:
        lows.append(low(connection))
        return lows[-1]

    others = 1 if flavor == "mariadb" and not xa else 0
    with other_readers(server, others), writers(server, database, sessions, xa=xa):
        assert (
            _lost(server, database, kept_low, release, XA_CHECKS if sessions == XA_SESSIONS else CHECKS, sessions) == 0
        )


AFTER_SYNC = {
    "mysql": ("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'", "rpl_semi_sync_source_{}"),
    "mariadb": ("SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'", "rpl_semi_sync_master_{}"),
}


@pytest.mark.parametrize(
    ("flavor", "options", "grants", "kind"),
    [
        ("mysql", {}, [], "gtid"),
        ("mysql", *LOG_STATUS),
        ("mysql", {"gtid": False}, [], "aged"),
        ("mariadb", {}, [], "snapshot"),
    ],
)
def test_a_commit_that_waits_for_a_replica_is_not_covered(
    private_server: Callable[..., Server],
    flavor: str,
    options: dict[str, Any],
    grants: list[str],
    kind: WatermarkClass,
) -> None:
    """There is none: the commit is in the binlog, and invisible until the time limit.

    The low watermark is before it, or waits.
    """
    server = private_server(flavor, **options)
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*", *grants])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    begin, variable = AFTER_SYNC[flavor]
    server.execute(begin)
    server.execute(f"SET GLOBAL {variable.format('timeout')} = 3000")
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        watermarks = _watermarks(endpoint, connection, kind)
        reader = _BinlogReader(endpoint, connection) if kind == "gtid" else None
        if reader is not None:
            reader.offer(connection, watermarks)
        before = current(connection, described)
        server.execute(f"SET GLOBAL {variable.format('enabled')} = 1")
        commit = Thread(target=server.execute, args=("INSERT INTO d.t VALUES (1)",))
        commit.start()
        while (logged := current(connection, described)).order == before.order:
            time.sleep(0.01)
        assert not query(connection, "SELECT id FROM d.t"), "it waits"
        if reader is not None:
            reader.offer(connection, watermarks)
        elif kind == "aged":
            watermarks.offer(Candidate(logged, server_time_s(connection)))
        low = watermarks.low()
        seen = query(connection, "SELECT id FROM d.t")
        assert seen or low.order < logged.order
        watermarks.release()
        commit.join()


@pytest.mark.parametrize("flushes", [False, True])
def test_a_rotation_while_a_commit_waits_proves_nothing(private_server: Callable[..., Server], flushes: bool) -> None:
    """MariaDB then moves the position of its last commit into the next file, past a commit that nobody sees yet.

    Nor does the checkpoint event that follows. flushes: by command, else because the commit has filled its file.
    """
    server = private_server("mariadb", **({} if flushes else {"max_binlog_size": 4096}))
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, x VARCHAR(9000))")
    begin, variable = AFTER_SYNC["mariadb"]
    server.execute(begin)
    server.execute(f"SET GLOBAL {variable.format('timeout')} = 2500")
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        described, watermarks = describe(connection), _watermarks(endpoint, connection)
        for number in (1, 2):  # the second one waits behind the first one's checkpoint event, or before it
            server.execute(f"SET GLOBAL {variable.format('enabled')} = 1")
            before = current(connection, described)
            commit = Thread(target=server.execute, args=(f"INSERT INTO d.t VALUES ({number}, REPEAT('x', 9000))",))
            commit.start()
            while current(connection, described).order == before.order:
                time.sleep(0.01)
            if flushes and number == 1:
                Thread(target=server.execute, args=("FLUSH BINARY LOGS",)).start()
                time.sleep(0.5)
            low = watermarks.low()
            seen = [row["id"] for row in query(connection, "SELECT id FROM d.t")]
            high = watermarks.high(low, TABLE)
            watermarks.release()
            commit.join()
            assert low.order <= high.order
            assert number in seen or low.order <= before.order, (before, low, high, seen)


def test_the_file_of_the_last_commit_may_be_purged(private_server: Callable[..., Server]) -> None:
    """MariaDB still shows its position. The next file's beginning is the low watermark: all before is committed."""
    server = private_server("mariadb")
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        table, watermarks = {("d", "t"): read_table(connection, "d", "t")}, _watermarks(endpoint, connection)
        for number in (1, 2):  # a reader that has been in the purged file, and one that has not
            server.execute(f"INSERT INTO d.t VALUES ({number})")
            if number == 1:
                assert watermarks.low().file == current(connection, describe(connection)).file
                watermarks.release()
            server.execute("FLUSH BINARY LOGS")
            newest = server.execute("SHOW BINARY LOGS")[-1][0]
            while len(server.execute("SHOW BINARY LOGS")) > 1:  # while it may have pending commits, it stays
                server.execute(f"PURGE BINARY LOGS TO '{newest}'")
            fresh = _watermarks(endpoint, connection)
            for reader in (watermarks, fresh):
                low = reader.low()
                seen = [row["id"] for row in query(connection, "SELECT id FROM d.t ORDER BY id")]
                high = reader.high(low, TABLE)
                reader.release()
                assert seen == list(range(1, number + 1))
                assert low.file == high.file == newest
                parts = list(read_range(endpoint, BinlogRange(table, low, high, mariadb=True), 77_000))
                assert not any(changes.rows.num_rows for _, _, changes in parts)


def test_sessions_that_commit_for_themselves_prove_nothing(private_server: Callable[..., Server]) -> None:
    """With binlog_optimize_thread_scheduling=OFF, MariaDB's position moves before the sessions of a group commit."""
    server = private_server("mariadb", binlog_optimize_thread_scheduling="OFF")
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"])
    server.execute("CREATE DATABASE d")
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        assert watermark_class(connection, describe(connection)) == "aged"

    def checked() -> tuple[str, str]:
        checks = server_preflight(endpoint, _source(server), 79_000).checks
        return next((one.outcome, one.fix) for one in checks if one.name == "watermarks")

    assert checked() == ("warn", "Start the server with binlog_optimize_thread_scheduling = ON, its default.")
    server.restart(binlog_optimize_thread_scheduling="ON")
    assert checked() == ("ok", "")


def test_a_long_wait_for_a_replica_is_refused_where_nothing_shows_it(private_server: Callable[..., Server]) -> None:
    """By check and by each low watermark of class aged, until one of the hint's remedies is there."""
    server = private_server("mysql", gtid=False)
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"])
    server.execute(AFTER_SYNC["mysql"][0])
    server.execute("SET GLOBAL rpl_semi_sync_source_timeout = 100000, rpl_semi_sync_source_enabled = 1")
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        watermarks = _watermarks(endpoint, connection, "aged")
        with pytest.raises(SourceLostError, match="wait for a replica for 100 s") as refused:
            watermarks.low()
        checks = server_preflight(endpoint, _source(server), 79_000).checks
        assert [(one.outcome, one.fix) for one in checks if one.name == "watermarks"] == [("fail", refused.value.hint)]
        server.execute("SET GLOBAL rpl_semi_sync_source_timeout = 20000")
        assert replica_wait_s(connection) == 20.0
        server.execute(f"GRANT BACKUP_ADMIN ON *.* TO '{USER}'@'%'")
    with closing(open_connection(endpoint)) as connection:
        assert watermark_class(connection, describe(connection)) == "log_status"


def test_what_is_visible_does_not_depend_on_where_the_reading_begins(
    server_with: Callable[..., Server], new_database: Any
) -> None:
    """XA COMMITs of listed transactions are found from any known position on, also if the PREPARE is before it."""
    server = server_with("mariadb")
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.t (n INT)")
    server.execute("FLUSH BINARY LOGS")  # what other tests have written is not searched
    endpoint = Endpoint(server.host, server.port, "root", "")
    edges, before = [], {}
    with closing(open_connection(endpoint)) as connection, connection.cursor() as cursor:
        described = describe(connection)
        for number in range(7):
            xid = f"'{database}','{number % 3}'"
            insert = f"INSERT INTO `{database}`.t VALUES ({number})"
            for statement in (f"XA START {xid}", insert, f"XA END {xid}", f"XA PREPARE {xid}", f"XA COMMIT {xid}"):
                edges.append(current(connection, described))
                if number < 6 or not statement.startswith("XA COMMIT"):
                    cursor.execute(statement)
            before[number % 3] = edges[-1]
        end = current(connection, described)
        cursor.execute(f"XA COMMIT '{database}','0'")
    xids = [(database.encode(), str(number).encode(), 1) for number in range(3)]
    for listed in ([1], [2], [1, 2], [0, 1], [0]):
        expected = min([end, *(before[n] for n in listed if n)], key=lambda position: position.order)
        for known in (None, *edges):
            visibility = XaVisibility(endpoint, 79_000)
            assert visibility.visible_through(end, [xids[n] for n in listed], known)[0].order == expected.order


def _watermarks(
    endpoint: Endpoint, connection: Any, kind: WatermarkClass = "snapshot", settle_s: float = 0.1
) -> Watermarks:
    """Those of a reader."""
    xa_commits, commits = XaVisibility(endpoint, 79_000), CommitVisibility(endpoint, 79_500)
    return Watermarks(connection, describe(connection), kind, settle_s, xa_commits, commits)


def _source(server: Server) -> Source:
    return Source(host=server.host, port=server.port, user=USER, password_env="UNUSED", tables=("d.*",))


class _BinlogReader:
    """Knows the GTID set at the binlog's end as the engine does: by decoding from the last known end on."""

    def __init__(self, endpoint: Endpoint, connection: Any) -> None:
        self._endpoint, self._server, self._calls = endpoint, describe(connection), 0
        end = current(connection, self._server)
        self._known = Position(end.file, end.offset, gtids_at(endpoint, end, 78_000))

    def offer(self, connection: Any, watermarks: Watermarks) -> None:
        """Offer the newest possible candidate at every tenth call."""
        self._calls += 1
        if self._calls % 10 == 1:
            end = current(connection, self._server)
            binlog_range = BinlogRange({}, self._known, end, mariadb=False)
            for _ in read_range(self._endpoint, binlog_range, 78_000):
                pass
            gtids = joined([self._known.gtids or "", str(binlog_range.transactions.gtids)], mariadb=False)
            self._known = Position(end.file, end.offset, gtids)
            watermarks.offer(Candidate(self._known, server_time_s(connection)))
