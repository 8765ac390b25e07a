"""The source or Spark is lost for a while: the run reports it, waits, continues, and ends equal."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psutil
import pymysql
import pytest

from tests.conftest import DatabaseFactory
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.sessions import spark_settings
from tests.servers import PASSWORD, USER, Pool, Server
from tests.support.depth import on

SILENCE_S = 15.0
"""After so long without an answer, the question has failed."""
ServerFactory = Callable[..., Server]
ALERTS = "[alerts]\nfor_s = 3\n"
SLOW = "[throttle]\nmax_rows_per_s = 1500\n"


@contextmanager
def hanging(server: Server) -> Iterator[None]:
    """Suspend the server: its connections stay open and nothing answers."""
    assert server.process is not None
    (real,) = [p for p in [psutil.Process(server.process.pid)] if p.is_running()]
    os.kill(real.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(real.pid, signal.SIGCONT)


@contextmanager
def refusing(server: Server) -> Iterator[None]:
    """The password changes, and the connections end."""
    server.execute(f"ALTER USER {USER} IDENTIFIED BY 'another'")
    for row in server.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{USER}'"):
        with suppress(pymysql.Error):  # it has ended meanwhile
            server.execute(f"KILL {row[0]}")
    try:
        yield
    finally:
        server.execute(f"ALTER USER {USER} IDENTIFIED BY '{PASSWORD}'")


def shown_away(pipeline: Pipeline, runner: Any, kind: str = "source_away") -> dict[str, Any]:
    """The `status` that reports the outage, once its alert is raised."""
    status: dict[str, Any] = {}

    def found() -> bool:
        status.update(pipeline.status())
        alerts = {alert["kind"] for alert in status["alerts"]}
        return status["away"] is not None and kind in alerts

    pipeline.wait_for(found, runner, 60.0)
    return status


@on("mariadb")
def test_a_source_that_is_away_is_waited_for(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """Killed during the copy and suspended later: one alert each, the same run, and equal tables."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    seed_table(server, "d", "orders", 12_000)
    pipeline = new_pipeline(server, "d", chunk_rows=500, more=ALERTS + SLOW)
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("chunk.finished")) >= 4, runner)
    server.kill()
    status = shown_away(pipeline, runner)
    assert status["state"] == "running"
    assert status["away"]["attempt"] >= 2
    assert f"{server.port}" in status["away"]["error"]
    assert status["away"]["next_try"] > status["away"]["since"]
    server.launch()
    pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
    assert pipeline.status()["away"] is None
    with hanging(server):
        pipeline.wait_for(lambda: pipeline.status()["away"], runner, SILENCE_S - 5)
        assert pipeline.status()["away"]["attempt"] == 0, "it only does not answer yet"
        shown_away(pipeline, runner)
    pipeline.wait_for(lambda: pipeline.status()["away"] is None, runner)
    refuse(pipeline, server, runner)
    server.execute("DELETE FROM d.orders WHERE id < 100")
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "orders"), pipeline.mirror("orders"))
    assert len(pipeline.events("run.started")) == 1
    assert [e["kind"] for e in pipeline.events("alert.cleared")] == ["source_away", "source_away", "login_refused"]
    assert len(pipeline.events("source.back")) == 3
    measure_after_idle_time(pipeline, server)


def refuse(pipeline: Pipeline, server: Server, runner: Any) -> None:
    """The source is not unreachable, and no network is at fault."""
    with refusing(server):
        status = shown_away(pipeline, runner, "login_refused")
    assert status["away"]["refused"]
    assert "Access denied" in status["away"]["error"]
    (alert,) = (one for one in status["alerts"] if one["kind"] == "login_refused")
    assert alert["message"].startswith("The source refuses the login: ")
    assert "password" in alert["hint"]
    assert "network" not in alert["hint"]
    pipeline.wait_for(lambda: pipeline.status()["away"] is None, runner)


@pytest.mark.soak
def test_a_refused_login_is_forgotten_when_the_next_run_has_logged_in(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The run is killed while its alert stands. That of the next one ends before Spark is up."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    seed_table(server, "d", "orders", 100)
    pipeline = new_pipeline(server, "d", more=ALERTS)
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
    with refusing(server):
        shown_away(pipeline, runner, "login_refused")
        runner.kill()
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 2, runner)
    cleared, connected = pipeline.events("alert.cleared")[0], pipeline.events("run.connected")[1]
    assert cleared["kind"] == "login_refused"
    assert cleared["seq"] < connected["seq"]
    pipeline.stop(runner)


def measure_after_idle_time(pipeline: Pipeline, server: Server) -> None:
    """The last transaction of the run is an hour old; the next one is not an hour of lag."""
    with closing(server.connect(database="d")) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION timestamp = UNIX_TIMESTAMP() - 3600")
        cursor.execute("DELETE FROM orders WHERE id = 101")
    runner, before = pipeline.start(), len(pipeline.events("source.lag"))

    def measured() -> list[dict[str, Any]]:
        return pipeline.events("source.lag")[before:]

    pipeline.wait_for(lambda: any(one["lag_bytes"] == 0 for one in measured()), runner)
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["state"] == "paused", runner)

    def behind() -> bool:
        """The epoch under way when the run was paused may take a first change."""
        server.execute("UPDATE d.orders SET quantity = quantity + 1 WHERE id = 102")
        return bool(measured()[-1]["lag_bytes"])

    pipeline.wait_for(behind, runner)
    assert measured()[-1]["lag_s"] < 600
    pipeline.stop(runner)


@pytest.mark.soak
def test_a_stop_does_not_wait_for_a_source_that_hangs(
    private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The run ends within seconds during the copy; the next one continues."""
    server = private_server("mysql")
    server.execute("CREATE DATABASE d")
    seed_table(server, "d", "orders", 12_000)
    pipeline = new_pipeline(server, "d", chunk_rows=500, more=ALERTS + SLOW)
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("chunk.finished")) >= 4, runner)
    with hanging(server):
        pipeline.wait_for(lambda: pipeline.status()["away"], runner, 60.0)
        began = time.monotonic()
        pipeline.stop(runner)
        assert time.monotonic() - began < 40
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "orders"), pipeline.mirror("orders"))


@pytest.mark.soak
def test_a_spark_that_dies_is_started_again(
    servers: Pool, new_database: DatabaseFactory, new_pipeline: PipelineFactory
) -> None:
    """The driver's JVM is killed during the copy and while streaming.

    The same run starts others, and publishes no change twice.
    """
    server = servers.get("mysql")
    database = new_database(server)
    seed_table(server, database, "orders", 6_000)
    pipeline = new_pipeline(server, database, chunk_rows=500, more=SLOW, spark=spark_settings("local[2]"))
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("chunk.finished")) >= 3, runner)
    _kill_spark(runner)
    server.execute(f"DELETE FROM {database}.orders WHERE id < 100")
    pipeline.wait_for(lambda: _errors(pipeline), runner)
    pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
    _kill_spark(runner)
    server.execute(f"DELETE FROM {database}.orders WHERE id BETWEEN 200 AND 300")
    pipeline.wait_for(lambda: len(_errors(pipeline)) > 1, runner)
    pipeline.finish(runner)
    assert set(_errors(pipeline)) == {"SparkLostError"}
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))
    assert len(pipeline.events("run.started")) == 1


def _errors(pipeline: Pipeline) -> list[str]:
    """The kinds of the run's own errors, one for each; what helpers say of them comes besides."""
    return [event["error"] for event in pipeline.events("error") if not event["helper"]]


def _kill_spark(runner: Runner) -> None:
    (driver,) = [p for p in psutil.Process(runner.pid).children() if p.name() == "java"]
    driver.kill()
