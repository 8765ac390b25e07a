"""MariaDB commits transactions with tables of Aria in one phase: its snapshots do not show them for certain."""

import random
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.capture.binlog.one_phase_commits import settled_in_s
from engine.capture.reader_session import ReaderSession
from engine.pipeline.directory import Directory
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.watermarks import WatermarkClass
from engine.spec.settings import load
from engine.verify import source_session
from engine.verify.scope import Scope
from engine.verify.verifier import Verifier
from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.seed import seed_table
from tests.servers import PASSWORD, Server
from tests.support.depth import depth, on

ROWS = depth(1_000, 100_000)


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


def commit_in_one_phase(server: Server, database: str, statement: str) -> None:
    """A transaction of InnoDB that reads a table of Aria."""
    with closing(server.connect(database=database, autocommit=False)) as session, session.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SELECT * FROM audit")
        cursor.execute("COMMIT")


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
    server.execute(f"ALTER TABLE {database}.audit ENGINE=InnoDB")  # as the hint says
    assert pipeline.command("redump", "--table", f"{database}.orders").returncode == 0
    with Writers(server, f"{database}.orders"):
        pipeline.run("caught-up")
    pipeline.run("caught-up")
    assert len(pipeline.events("error")) == 1
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))


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


@on("mariadb")
def test_a_verification_believes_no_snapshot_beside_one_phase_commits(
    server: Server, database: str, new_pipeline: PipelineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads again with other watermarks, as a run does: a commit that the snapshot lacks is no difference."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"CREATE TABLE {database}.audit (id INT) ENGINE=Aria")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    pipeline = new_pipeline(server, database, tables=[f"{database}.t"])
    pipeline.run("caught-up")
    monkeypatch.setenv("TIDEMARK_TEST_PASSWORD", PASSWORD)
    kinds = list[WatermarkClass]()

    def noted(endpoint: Endpoint, kind: WatermarkClass, settle_s: float, first_server_id: int) -> ReaderSession:
        kinds.append(kind)
        return ReaderSession(endpoint, kind, settle_s, first_server_id)

    monkeypatch.setattr(source_session, "ReaderSession", noted)
    with closing(Verifier(load(pipeline.spec), Directory(pipeline.home))) as verifier:
        assert verifier.table(f"{database}.t", Scope(), "rows").verdict == "verified"
        assert kinds == ["snapshot"]
        commit_in_one_phase(server, database, "INSERT INTO t VALUES (2)")
        assert verifier.table(f"{database}.t", Scope(), "rows").verdict == "lagging", "the mirror has not got it yet"
        assert kinds == ["snapshot", "aged"]


def test_a_run_that_begins_knows_whether_snapshots_show_what_was_committed_before(
    private_server: Callable[..., Server],
) -> None:
    """By the binlog's newest file, if that began before: a one-phase commit may be invisible for a moment."""
    server = private_server("mariadb")
    server.execute("CREATE DATABASE d")
    for table, engine in (("t", "InnoDB"), ("plain", "MyISAM"), ("audit", "Aria")):
        server.execute(f"CREATE TABLE d.{table} (id INT PRIMARY KEY) ENGINE={engine}")
    endpoint = Endpoint(server.host, server.port, "root", "")
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)

        def settles_in_s(age_s: float) -> float:
            return settled_in_s(connection, endpoint, described, age_s, 79_700)

        assert settles_in_s(3600.0) == 3600.0, "the file is younger"
        while settles_in_s(0.1):
            time.sleep(0.1)
        for statement in ("INSERT INTO d.plain VALUES (1)", "INSERT INTO d.t VALUES (1)"):
            server.execute(statement)
            assert settles_in_s(0.1) == 0.0
        commit_in_one_phase(server, "d", "INSERT INTO t VALUES (2)")
        assert settles_in_s(0.1) == 0.1
