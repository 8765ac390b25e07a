"""The central promise: a table that is written all the time is copied into the lake and stays equal to the source."""

import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import apply_changes, assert_equal, assert_read_by_all, log_faults, source_table
from tests.live.support.other_tool import OtherTool
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.sessions import SESSIONS, Session, session_of
from tests.live.support.workload import Workload
from tests.servers import FLAVORS, Server
from tests.support.depth import depth, in_soak, on
from tests.support.patience import PATIENCE_S

RATE = depth(400, 700)
"""Transactions a second."""
LEAST_PER_SECOND = depth(150, 500)
"""A machine with other work does not reach the rate."""


USUAL = [("mariadb", "connect"), in_soak("mysql", "standalone")]
"""A local session is under load below, where the runner is killed too; a standalone cluster in `test_apart`."""


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session of the kind that the test names."""
    with session_of(request.param) as made:
        yield made


def _assert_right(pipeline: Pipeline, server: Server, database: str, kept: Path | None = None) -> None:
    """Every reader finds the source in the mirror.

    So does snapshot plus change log, in which each change matches its row.
    """
    source = source_table(server, database, "orders")
    assert_read_by_all(source, pipeline.mirror("orders"), pipeline.changes("orders"))
    snapshot, key = pipeline.snapshot("orders", kept), ["id"]
    assert log_faults(snapshot, pipeline.changes("orders"), key) == []
    assert_equal(source, apply_changes(snapshot, pipeline.changes("orders"), key))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("flavor", "session"), depth(USUAL, list(product(FLAVORS, SESSIONS))), indirect=["session"])
def test_a_table_under_load_stays_equal(
    server: Server, database: str, new_pipeline: PipelineFactory, session: Session
) -> None:
    """Copied under hundreds of transactions per second, then streamed, it equals the source.

    `make soak`: a million rows.

    The test kills an executor of the cluster and a reader of the Connect server.
    """
    # Chunks are large enough that a reader is found at work on a fast machine too.
    seed_table(server, database, "orders", depth(240_000, 1_000_000), binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=depth(12_000, 20_000), spark=session.settings)
    with Workload(server, database, "orders", seed=1, rate=RATE) as load, session.losing_one(pipeline):
        runner = pipeline.start_streaming()
        time.sleep(depth(4, 30))
        counts = load.stop()
    pipeline.finish(runner)
    assert load.per_second >= LEAST_PER_SECOND, counts
    _assert_right(pipeline, server, database)
    assert sum(c["backfill"]["changes"] for c in pipeline.events("chunk.finished")) > 0 or server.flavor == "mariadb"
    assert sum(e["changes"] for e in pipeline.events("epoch.committed")) > counts["committed"] // 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_instants(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """A runner that is killed again and again resumes: no row is lost, doubled or read again. `make soak`: ten times.

    Another tool compacts and vacuums mirror and change log all the time.
    """
    seed_table(server, database, "orders", depth(100_000, 600_000), binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=depth(2_500, 10_000), merge=1.0)
    chance, other = random.Random(7), OtherTool(pipeline, "orders", tmp_path / "kept")
    with Workload(server, database, "orders", seed=2, rate=RATE) as load, other:
        for _ in range(depth(2, 10)):
            goal = len(pipeline.events("run.state")) + 1
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_states, pipeline, goal), runner)
            time.sleep(chance.uniform(0.0, 3.0))
            runner.send_signal(signal.SIGKILL)
            runner.wait()
        load.stop()
        pipeline.run("caught-up")
    assert load.per_second >= LEAST_PER_SECOND
    assert other.removed[pipeline.mirror("orders")]
    _assert_right(pipeline, server, database, tmp_path / "kept")
    assert all(event["kind"] != "replace" for event in pipeline.events("sink.applied"))
    assert _read_again(pipeline) == set()


def _has_states(pipeline: Pipeline, number: int) -> bool:
    return len(pipeline.events("run.state")) >= number


def _read_again(pipeline: Pipeline) -> set[int]:
    """Chunks that a run assigned although an earlier run had committed them."""
    committed: dict[str, set[int]] = {}
    for epoch in pipeline.epochs():
        for table in epoch["tables"].values():
            committed.setdefault(epoch["run"], set()).update(chunk["chunk"] for chunk in table.get("chunks", []))
    again, before, run = set(), set(), None
    for event in pipeline.events("run.started", "chunk.assigned"):
        if event["event"] == "run.started":
            before |= committed.get(run or "", set())
            run = event["run"]
        else:
            again |= before & set(event["chunks"])
    return again


@on("mysql")
def test_a_graceful_stop_commits_what_is_under_way(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """SIGTERM during a copy ends with 0, and no finished chunk is read again."""
    seed_table(server, database, "orders", 150_000, binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=1_000)
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("chunk.finished")) > 3, runner)
    pipeline.stop(runner)
    read = [event["chunk"] for event in pipeline.events("chunk.finished")]
    done = pipeline.status()["tables"][0]["chunks_done"]
    assert done == len(read) > 0
    pipeline.run("caught-up")
    numbers = [event["chunk"] for event in pipeline.events("chunk.finished")]
    assert sorted(numbers) == list(range(len(numbers)))
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))


@on("mariadb")
def test_a_second_runner_ends_with_5_and_harms_nothing(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The second runner of a pipeline says who holds it and ends with 5; the first continues."""
    seed_table(server, database, "orders", 50_000, binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=5_000)
    runner = pipeline.start()
    pipeline.wait_for(lambda: pipeline.events("run.connected"), runner)
    second = pipeline.command("run", "--until", "caught-up")
    assert second.returncode == 5
    assert "Another runner holds the pipeline" in second.stderr
    pipeline.stop(runner)
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))


@on("mysql")
def test_pause_resume_and_stop_by_command(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """The journal answers the commands; a paused pipeline commits nothing; after resume everything arrives."""
    seed_table(server, database, "orders", 20_000)
    pipeline = new_pipeline(server, database, chunk_rows=5_000)
    runner = pipeline.start_streaming()
    assert pipeline.command("pause", "--reason", "test").returncode == 0
    pipeline.wait_for(lambda: len(pipeline.events("command.done")) == 1, runner)
    status = pipeline.status()
    assert status["state"] == "paused"
    assert 0 < status["disk"]["free_bytes"] < status["disk"]["total_bytes"]
    epochs = len(pipeline.epochs())
    server.execute(f"UPDATE `{database}`.orders SET quantity = quantity + 1 WHERE id % 7 = 0")
    time.sleep(1.5)
    assert len(pipeline.epochs()) == epochs
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("command.refused"), runner)
    assert pipeline.command("resume").returncode == 0
    pipeline.wait_for(lambda: len(pipeline.epochs()) > epochs, runner)
    assert pipeline.command("stop").returncode == 0
    assert runner.wait(timeout=PATIENCE_S) == 0
    assert [e["verb"] for e in pipeline.events("command.done")] == ["pause", "resume", "stop"]
    assert pipeline.status()["state"] == "stopped"
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))
