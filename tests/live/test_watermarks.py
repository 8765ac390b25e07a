"""Watermarks: a naive low watermark loses rows on a busy server, Tidemark's lose none."""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import gtids_at, read_range
from engine.decode.gtid import joined
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import Position, current
from engine.source.watermarks import Candidate, Watermarks, server_time_s, watermark_class
from tests.servers import PASSWORD, USER, Server, create_user
from tests.support.depth import depth

CHECKS = depth(2_000, 50_000)
WRITERS = 2


def _insert_for_ever(host: str, port: int, database: str, writer: int, parent: int) -> None:
    """One writer: single-row transactions with ascending ids, as fast as possible, until the parent process is gone."""
    import pymysql

    connection = pymysql.connect(host=host, port=port, user="root", database=database, autocommit=True)
    cursor, number = connection.cursor(), 0
    while os.getppid() == parent:
        number += 1
        cursor.execute(f"INSERT INTO t VALUES ({writer}, {number})")


@contextmanager
def writers(server: Server, database: str) -> Any:
    """Tight insert loops in processes of their own; each writer's rows become visible in ascending order."""
    server.execute(f"CREATE TABLE `{database}`.t (writer INT, number INT, PRIMARY KEY (writer, number))")
    context = multiprocessing.get_context("spawn")
    arguments = [(server.host, server.port, database, writer, os.getpid()) for writer in range(WRITERS)]
    processes = [context.Process(target=_insert_for_ever, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    try:
        while server.execute(f"SELECT COUNT(DISTINCT writer) FROM `{database}`.t")[0][0] < WRITERS:
            time.sleep(0.05)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _lost(server: Server, database: str, low: Callable[[Any], Position], done: Callable[[], None], checks: int) -> int:
    """In how many of `checks` the low watermark covered a commit that a later read did not see."""
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        begin = current(connection, describe(connection))
        table = read_table(connection, database, "t")
        select = " UNION ALL ".join(
            f"SELECT MAX(number) FROM `{database}`.t WHERE writer = {w}" for w in range(WRITERS)
        )
        taken: list[tuple[Position, tuple[int, ...]]] = []
        with connection.cursor() as cursor:
            for _ in range(checks):
                position = low(connection)
                cursor.execute(select)
                taken.append((position, tuple(row[0] for row in cursor.fetchall())))
                done()
        end = current(connection, describe(connection))
    binlog_range = BinlogRange({(database, "t"): table}, begin, end, mariadb=server.flavor == "mariadb")
    parts = [changes for _, _, changes in read_range(endpoint, binlog_range, 77_000)]
    writer, number = (np.concatenate([p.rows[name].to_numpy() for p in parts]) for name in ("writer", "number"))
    order = np.concatenate([p.fact("file") << 40 | p.fact("offset") for p in parts])
    lows = np.array([position.order[0] << 40 | position.order[1] for position, _ in taken])
    lost = np.zeros(len(taken), bool)
    for w in range(WRITERS):
        covered = np.searchsorted(order[writer == w], lows, side="right")
        newest = np.concatenate([[0], number[writer == w]])[covered]
        lost |= newest > np.array([seen[w] for _, seen in taken])
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


@pytest.mark.parametrize(
    ("flavor", "options", "grants", "kind"),
    [
        ("mysql", {}, [], "gtid"),
        ("mysql", {"gtid": False}, ["BACKUP_ADMIN ON *.*"], "log_status"),
        ("mariadb", {}, [], "snapshot"),
    ],
)
def test_ours_lose_none(
    server_with: Callable[..., Server],
    new_database: Any,
    flavor: str,
    options: dict[str, Any],
    grants: list[str],
    kind: str,
) -> None:
    """In thousands of checks under tight insert loops, no class of low watermark covers a commit that the read misses."""
    server = server_with(flavor, **options)
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*", *grants])
    database = new_database(server)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    held: list[Watermarks] = []
    readers: list[_BinlogReader] = []

    def low(connection: Any) -> Position:
        if not held:
            described = describe(connection)
            assert watermark_class(connection, described) == kind
            held.append(Watermarks(connection, described, kind, 1.0))
            if kind == "gtid":
                readers.append(_BinlogReader(endpoint, connection))
        for each in readers:
            each.offer(connection, held[0])
        return held[0].low()

    def release() -> None:
        held[0].release()

    with writers(server, database):
        assert _lost(server, database, low, release, CHECKS) == 0


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
