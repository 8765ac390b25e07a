"""MariaDB commits transactions with tables of Aria in one phase: its snapshots do not show them for certain."""

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from engine.source.connect import Endpoint, describe
from engine.source.positions import Position, current
from engine.source.watermarks import Candidate, WatermarkClass, Watermarks, server_time_s
from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.seed import seed_table
from tests.live.test_watermarks import count_lost, reader_watermarks, writers
from tests.servers import PASSWORD, USER, Server, create_user
from tests.support.depth import depth, on

ROWS = depth(6_000, 100_000)
CHECKS = depth(100, 3_000)


class Writers(Background):
    """Sessions that each commit single rows all over a table, as fast as possible."""

    def __init__(self, server: Server, table: str) -> None:
        super().__init__(threads=6)
        self._server, self._table = server, table

    def work(self, number: int) -> None:
        """Update, delete and insert at random."""
        chance = random.Random(number)
        with closing(self._server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
            while not self.stopping.wait(0.003):
                one, other = (chance.randrange(1, ROWS) for _ in range(2))
                cursor.execute(f"UPDATE {self._table} SET quantity = quantity + 1 WHERE id = {one}")
                cursor.execute(f"UPDATE IGNORE {self._table} SET id = id + {ROWS} WHERE id = {other}")


@pytest.mark.parametrize(("kind", "lacks"), [("snapshot", True), ("aged", False)])
def test_a_snapshot_lacks_one_phase_commits(
    private_server: Callable[..., Server], kind: WatermarkClass, lacks: bool
) -> None:
    """Which the position of the last commit covers. Watermarks of class aged lack none."""
    server = private_server("mariadb")
    create_user(server, USER, ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.audit (number INT) ENGINE = Aria")
    trigger = "CREATE TRIGGER d.audited AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.audit VALUES (NEW.number)"
    held: dict[Any, Watermarks] = {}

    def low(connection: Any) -> Position:
        if connection not in held:
            held.clear()
            endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
            held[connection] = reader_watermarks(endpoint, connection, kind, 1.0)
        held[connection].offer(Candidate(current(connection, describe(connection)), server_time_s(connection)))
        return held[connection].low()

    def done() -> None:
        for watermarks in held.values():
            watermarks.release()

    with writers(server, "d", 8, more=trigger):
        lost = 0
        for _ in range(20 if lacks else 1):  # how many it loses depends on the machine
            lost += count_lost(server, "d", low, done, CHECKS, 8)
            if lost:
                break
    assert bool(lost) == lacks


@on("mariadb")
def test_a_copy_under_one_phase_commits_lacks_no_row(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """An audit table of Aria takes part in each transaction. The run notices, and reads with other watermarks."""
    seed_table(server, database, "orders", ROWS, binlog=False)
    server.execute(f"CREATE TABLE {database}.audit (id BIGINT) ENGINE=Aria")
    for kind, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        server.execute(
            f"CREATE TRIGGER {database}.audit_{kind} AFTER {kind} ON {database}.orders FOR EACH ROW "
            f"INSERT INTO {database}.audit VALUES ({row}.id)"
        )
    pipeline = new_pipeline(server, database, chunk_rows=100, tables=[f"{database}.orders"])
    with Writers(server, f"{database}.orders"):
        runner = pipeline.start_streaming()
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))
    assert [one["error"] for one in pipeline.events("error")] == ["OnePhaseCommitError"]


@on("mariadb")
def test_transactions_without_transactional_tables_prove_snapshots_all_the_same(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """They are logged with COMMIT too, but at once; no transaction of InnoDB waits."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"CREATE TABLE {database}.plain (id INT PRIMARY KEY) ENGINE=MyISAM")
    pipeline = new_pipeline(server, database, tables=[f"{database}.t"])
    runner = pipeline.start_streaming()
    server.execute(f"INSERT INTO {database}.plain VALUES (1)")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    pipeline.finish(runner)
    assert not pipeline.events("error")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
