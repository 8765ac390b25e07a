"""Sessions that are not local: workers that lack packages or join late, and a Connect server that dies."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DatabaseFactory
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.sessions import spark_settings
from tests.servers import Pool, Server
from tests.servers.spark import Cluster, ConnectServer
from tests.support.patience import PATIENCE_S


@pytest.fixture
def mysql(servers: Pool) -> Server:
    """One flavor is enough to test Spark."""
    return servers.get("mysql")


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """An interpreter without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return str(tmp_path / "bare/bin/python")


@pytest.fixture(params=["standalone", "connect"])
def bare_workers(request: pytest.FixtureRequest, bare_python: str) -> Iterator[str]:
    """The [spark] settings of a cluster and of a Connect server whose workers use that interpreter."""
    if request.param == "standalone":
        with Cluster(workers=1) as cluster:
            yield spark_settings(cluster.master, bare_python)
    else:
        with ConnectServer(python=bare_python) as connect:
            yield spark_settings(connect.master)


@pytest.mark.soak
def test_a_worker_without_packages_is_named(
    mysql: Server, new_database: DatabaseFactory, new_pipeline: PipelineFactory, bare_workers: str, bare_python: str
) -> None:
    """The error names package, host, interpreter and remedy; the run ends with 3 before it reads a row."""
    database = new_database(mysql)
    seed_table(mysql, database, "orders", 10)
    pipeline = new_pipeline(mysql, database, spark=bare_workers)
    result = pipeline.command("run", "--until", "snapshot")
    assert result.returncode == 3, result.stderr[-3000:]
    error = pipeline.events("run.ended")[-1]["error"]  # stderr is wrapped
    assert error["error"] == "PreflightError"
    assert f"pymysql on {socket.gethostname()}" in error["message"]
    assert f"Their Python is {bare_python}." in error["detail"]
    assert "pip install" in error["hint"]
    assert not pipeline.events("chunk.assigned")


@pytest.mark.soak
def test_a_connect_server_that_dies_and_comes_back_gets_a_new_session(
    mysql: Server, new_database: DatabaseFactory, new_pipeline: PipelineFactory
) -> None:
    """The run reports that Spark is lost and retries; committed chunks are not read again."""
    database = new_database(mysql)
    seed_table(mysql, database, "orders", 40_000, binlog=False)
    with ConnectServer() as connect:
        slow = "[throttle]\nmax_rows_per_s = 4000\n"  # the copy is not over before the server dies
        pipeline = new_pipeline(mysql, database, chunk_rows=2_000, spark=spark_settings(connect.master), more=slow)
        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.epochs()) > 3, runner)
        connect.kill()
        pipeline.wait_for(lambda: len(_errors(pipeline)) > 1, runner)
        error = _errors(pipeline)[0]
        assert (error["error"], connect.master in error["message"]) == ("SparkLostError", True), error
        since = error["seq"]
        committed = {c["chunk"] for e in pipeline.epochs() for t in e["tables"].values() for c in t.get("chunks", [])}
        connect.start()
        pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
        pipeline.finish(runner)
    assert_equal(source_table(mysql, database, "orders"), pipeline.mirror("orders"))
    assert len(pipeline.events("run.started")) == 1
    again = {n for e in pipeline.events("chunk.assigned") if e["seq"] > since for n in e["chunks"]}
    assert not again & committed
    assert again


@pytest.mark.soak
def test_a_worker_that_joins_gets_work(
    mysql: Server, new_database: DatabaseFactory, new_pipeline: PipelineFactory
) -> None:
    """One core is one slot, whatever parallelism Spark reports; a second reader starts with the second Worker."""
    database = new_database(mysql)
    seed_table(mysql, database, "orders", 50_000, binlog=False)
    with Cluster(workers=1) as cluster:
        pipeline = new_pipeline(mysql, database, chunk_rows=1_000, spark=spark_settings(cluster.master))
        runner = pipeline.start_streaming()
        assert pipeline.events("run.connected")[0]["spark"]["slots"] == 1
        assert len({event["pid"] for event in pipeline.events("chunk.finished")}) == 1
        cluster.add_worker()
        readers = set[str]()
        for done in range(1, 7):  # one is over in seconds, and the executor takes some to register
            assert pipeline.command("redump", "--table", f"{database}.orders").returncode == 0
            pipeline.wait_for(partial(_done, pipeline, done), runner)
            readers = {event["reader"] for event in pipeline.events("redump.chunk")}
            if len(readers) > 1:
                break
        assert len(readers) == 2
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(timeout=PATIENCE_S) == 0


def _done(pipeline: Pipeline, commands: int) -> bool:
    """Whether that many commands are done."""
    return len(pipeline.events("command.done")) >= commands


def _errors(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The run's own errors; what helpers say of them comes besides."""
    return [event for event in pipeline.events("error") if not event["helper"]]
