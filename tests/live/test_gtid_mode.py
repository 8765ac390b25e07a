"""gtid_mode is lowered while a run reads MySQL by GTID: the run ends with an error, and no row is lost or wrong."""

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.base.errors import SourceLostError
from engine.capture.binlog.binlog_reader import before, gtids_at
from engine.capture.binlog.commit_visibility import CommitVisibility
from engine.capture.binlog.xa_visibility import XaVisibility
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import current
from engine.source.watermarks import Candidate, Watermarks, server_time_s
from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import PASSWORD, USER, Server
from tests.support.patience import PATIENCE_S

DOWN, UP = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"), ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
ServerFactory = Callable[..., Server]


class Writer(Background):
    """Updates rows of d.t and inserts new ones, one transaction each."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server, self.next = server, 100_000

    def work(self, _number: int) -> None:
        """Until it is stopped."""
        with closing(self.server.connect()) as session, session.cursor() as cursor:
            while not self.stopping.wait(0.002):
                cursor.execute("UPDATE d.t SET v = v + 1 WHERE id = %s", (self.next * 7919 % 20_000,))
                cursor.execute("INSERT INTO d.t VALUES (%s, 0)", (self.next,))
                self.next += 1


@pytest.fixture
def source(private_server: ServerFactory) -> Server:
    """A private MySQL with 20 000 rows."""
    server = private_server("mysql")
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute(
        "INSERT INTO d.t WITH RECURSIVE n AS (SELECT 0 AS k UNION ALL SELECT k + 1 FROM n WHERE k < 19999) "
        "SELECT /*+ SET_VAR(cte_max_recursion_depth = 100000) */ k, 0 FROM n"
    )
    return server


def set_mode(server: Server, *steps: str) -> None:
    """Change the mode step by step; on the way up, wait for ongoing transactions."""
    for step in steps:
        for _ in range(200):
            try:
                server.execute(f"SET GLOBAL gtid_mode = {step}")
                break
            except Exception:  # noqa: BLE001 - a transaction without GTID is still under way
                time.sleep(0.01)
        else:
            raise AssertionError(f"gtid_mode could not be set to {step}")


def await_end(pipeline: Pipeline, runner: Runner) -> str:
    """The runner's message, when it has ended with exit code 4."""
    assert runner.wait(timeout=PATIENCE_S) == 4, pipeline.output[-3000:]
    return " ".join(pipeline.output.split())


@pytest.mark.parametrize("steps", [DOWN[:1], DOWN[:2], DOWN])
def test_a_reader_takes_no_low_watermark_under_a_lowered_mode(source: Server, steps: tuple[str, ...]) -> None:
    """At any lower step the reader refuses; when the mode is ON again, the same reader continues."""
    endpoint = Endpoint(source.host, source.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        server = describe(connection)
        end = current(connection, server)
        marks = Watermarks(
            connection, server, "gtid", 1.0, XaVisibility(endpoint, 79_000), CommitVisibility(endpoint, 79_500)
        )
        marks.offer(
            Candidate(type(end)(end.file, end.offset, gtids_at(endpoint, end, 78_000)), server_time_s(connection))
        )
        assert marks.low() == end or marks.low().order == end.order
        set_mode(source, *steps)
        with pytest.raises(SourceLostError, match=f"lowered to {steps[-1]}"):
            marks.low()
        set_mode(source, *UP[UP.index("ON_PERMISSIVE") if len(steps) == 1 else 0 :])
        assert marks.low().order == end.order


def test_a_copy_under_writes_ends_and_goes_on(source: Server, new_pipeline: PipelineFactory) -> None:
    """Lowered to OFF while chunks are read: exit code 4. The next run continues without GTIDs and ends equal."""
    pipeline = new_pipeline(source, "d", chunk_rows=200, more="[throttle]\nmax_rows_per_s = 2000\n")
    with Writer(source):
        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.epochs()) > 2, runner)
        for step in DOWN:
            set_mode(source, step)
            time.sleep(0.3)
        message = await_end(pipeline, runner)
        # By a watermark, or by the server, which sends no transaction with a GTID once the mode is OFF.
        assert "gtid_mode was lowered to" in message or "Set gtid_mode = OFF_PERMISSIVE" in message
        if pipeline.epochs()[-1]["to"]["gtids"] is not None:  # else an epoch already ended behind such a transaction
            refused = pipeline.command("run")
            assert refused.returncode == 4, refused.stdout
            assert "Set gtid_mode = OFF_PERMISSIVE" in " ".join(refused.stderr.split())
        set_mode(source, "OFF_PERMISSIVE")
        before_end = pipeline.epochs()[-1]
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.epochs()[-1]["epoch"] > before_end["epoch"] + 2, runner)
        assert pipeline.epochs()[-1]["to"]["gtids"] is None
        pipeline.stop(runner)
    classes = [e["source"]["watermark_class"] for e in pipeline.events("run.connected")]
    assert classes[0] == "gtid" != classes[1]
    pipeline.spec.write_text(pipeline.spec.read_text().replace("max_rows_per_s = 2000", "max_rows_per_s = 0"))
    pipeline.run("caught-up")
    set_mode(source, *UP[1:])
    source.execute("INSERT INTO d.t VALUES (-1, 1)")
    pipeline.run("caught-up")
    assert pipeline.events("run.connected")[-1]["source"]["watermark_class"] == "gtid"
    assert_equal(source_table(source, "d", "t"), pipeline.mirror("t"), ["id"])


def test_anonymous_transactions_end_a_run_that_only_streams(source: Server, new_pipeline: PipelineFactory) -> None:
    """Without watermarks, the binlog itself reveals the mode. The ledger drops its GTIDs."""
    pipeline = new_pipeline(source, "d")
    runner = pipeline.start_streaming()
    source.execute("INSERT INTO d.t VALUES (200000, 1)")
    pipeline.wait_for(lambda: pipeline.epochs()[-1]["to"]["gtids"] is not None, runner)
    set_mode(source, *DOWN[:2])
    source.execute("INSERT INTO d.t VALUES (200001, 1)")
    assert "gtid_mode was lowered to OFF_PERMISSIVE" in await_end(pipeline, runner)
    assert pipeline.epochs()[-1]["to"]["gtids"] is None
    set_mode(source, *UP[1:])  # each step begins a new file
    source.execute("INSERT INTO d.t VALUES (200002, 1)")
    pipeline.run("caught-up")
    assert pipeline.epochs()[-1]["to"]["gtids"] is None
    source.execute("INSERT INTO d.t VALUES (200003, 1)")
    pipeline.run("caught-up")
    source.execute("INSERT INTO d.t VALUES (200004, 1)")
    pipeline.run("caught-up")
    assert pipeline.epochs()[-1]["to"]["gtids"]
    assert_equal(source_table(source, "d", "t"), pipeline.mirror("t"), ["id"])


def test_a_mode_that_is_on_again_too_early_says_what_to_do(source: Server, new_pipeline: PipelineFactory) -> None:
    """Lowered and raised between two runs: the server sends the anonymous transactions only under ON_PERMISSIVE."""
    pipeline = new_pipeline(source, "d")
    pipeline.run("caught-up")
    assert pipeline.epochs()[-1]["to"]["gtids"]
    set_mode(source, *DOWN)
    source.execute("INSERT INTO d.t VALUES (200001, 1)")
    set_mode(source, *UP)
    source.execute("INSERT INTO d.t VALUES (200002, 1)")
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4
    assert "Set gtid_mode = ON_PERMISSIVE" in " ".join(result.stderr.split())
    set_mode(source, "ON_PERMISSIVE")
    pipeline.run("caught-up")
    assert pipeline.epochs()[-1]["to"]["gtids"] is None
    set_mode(source, "ON")
    source.execute("INSERT INTO d.t VALUES (200003, 1)")
    pipeline.run("caught-up")
    assert pipeline.epochs()[-1]["to"]["gtids"] is None
    endpoint = Endpoint(source.host, source.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        end = current(connection, describe(connection))
    assert before(endpoint, end, 78_000, mariadb=False).anonymous == 0
    assert_equal(source_table(source, "d", "t"), pipeline.mirror("t"), ["id"])


def test_no_failover_behind_anonymous_transactions(
    source: Server, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """A replica has all GTIDs of the ledger, but not the published anonymous transaction: it is refused."""
    pipeline = new_pipeline(source, "d")
    pipeline.run("caught-up")
    known = pipeline.epochs()[-1]["to"]["gtids"]
    set_mode(source, *DOWN[:2])
    source.execute("INSERT INTO d.t VALUES (200001, 1)")
    pipeline.run("caught-up")
    other = private_server("mysql")
    other.execute("CREATE DATABASE d")
    other.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    other.execute("RESET BINARY LOGS AND GTIDS")
    other.execute(f"SET GLOBAL gtid_purged = '{known}'")
    pipeline.spec.write_text(pipeline.spec.read_text().replace(f"port = {source.port}", f"port = {other.port}"))
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stdout + result.stderr
    assert "the ledger knows no GTIDs of the committed position" in " ".join(result.stderr.split())
