"""The snapshot is paused, limited or held by the source's load, while the binlog is streamed."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest

from engine.capture.binlog.one_phase_commits import settled_in_s
from engine.source.connect import Endpoint, describe, open_connection
from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import USER, Server
from tests.servers.replica import go_on, hold, replicate
from tests.support.depth import on

ROWS, CHUNK_ROWS = 4000, 100


class Sleepers(Background):
    """Sessions that the server counts as running."""

    def __init__(self, server: Server) -> None:
        super().__init__(threads=12)
        self._server = server

    def work(self, _number: int) -> None:
        """Sleep in the server."""
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            while not self.stopping.is_set():
                cursor.execute("SELECT SLEEP(0.3)")


def _create(server: Server, *names: str) -> None:
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.n (n INT PRIMARY KEY)")
    for name in names:
        server.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)")
        digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
        server.execute(
            f"INSERT INTO d.{name} SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n, 0 FROM ({digits}) a, "
            f"({digits}) b, ({digits}) c, ({digits}) e HAVING n < {ROWS}"
        )


def _chunks(pipeline: Pipeline, name: str) -> int:
    return sum(e["table"] == f"d.{name}" for e in pipeline.events("chunk.finished"))


@pytest.mark.soak
@on("mariadb")
def test_tables_are_paused_limited_and_held_back(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """One table, a rate, the source's load: each limit survives a killed runner, gives its reason and can be lifted."""
    server = private_server(flavor)
    _create(server, "a", "b")
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0)
    assert pipeline.command("throttle", "max_rows_per_s=200").returncode == 0  # waits for the run
    assert pipeline.command("throttle", "max_rows=200").returncode == 2
    runner = pipeline.start(killed=True)
    pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
    _send(pipeline, runner, "pause", "--table", "d.b")
    pipeline.wait_for(lambda: _chunks(pipeline, "a") >= 4, runner)
    pipeline.wait_for(lambda: pipeline.status()["waiting_for"] == "at most 200 rows/s", runner)
    runner.kill()
    runner.wait()
    server.execute("UPDATE d.a SET v = v + 1 WHERE id %% 7 = %s", (0,))
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(t["state"] == "running" for t in pipeline.events("run.state")), runner)
    assert pipeline.status()["controls"]["tables"] == ["d.b"]
    assert _chunks(pipeline, "b") <= 3
    _send(pipeline, runner, "throttle", "--reset")
    pipeline.wait_for(lambda: _states(pipeline)["d.a"] == "streaming", runner)
    before = _chunks(pipeline, "b")
    time.sleep(2)
    assert _chunks(pipeline, "b") == before
    pipeline.wait_for(lambda: pipeline.status()["waiting_for"] == "paused by command", runner)

    with ExitStack() as load:
        _send(pipeline, runner, "throttle", "max_load.Threads_running=8", "max_rows_per_s=100000")
        load.enter_context(Sleepers(server))
        time.sleep(2.5)
        _send(pipeline, runner, "resume", "--table", "d.b")
        pipeline.wait_for(lambda: "Threads_running is" in (pipeline.status()["waiting_for"] or ""), runner)
        shown = json.loads((pipeline.home / "runner.json").read_text(encoding="utf-8"))["loads"]
        assert shown.keys() == {"Threads_running"}
        assert shown["Threads_running"] > 8
        held = _chunks(pipeline, "b")
        server.execute("UPDATE d.a SET v = v + 1 WHERE id %% 5 = %s", (0,))
        since = len(pipeline.events("epoch.committed"))
        pipeline.wait_for(lambda: sum(e["changes"] for e in pipeline.events("epoch.committed")[since:]) > 0, runner)
        assert _chunks(pipeline, "b") - held <= 1, "streaming continues, the snapshot does not"
    pipeline.wait_for(lambda: _states(pipeline)["d.b"] == "streaming", runner)

    _send(pipeline, runner, "throttle", "critical_load.Threads_running=8")
    with Sleepers(server):
        pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "paused", runner)
    assert "critical load: Threads_running is" in pipeline.events("run.state")[-1]["reason"]
    _send(pipeline, runner, "resume")
    pipeline.finish(runner)
    for name in ("a", "b"):
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))


def test_a_lagging_replica_holds_the_reading_of_tables(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """A replica that cannot be asked, does not apply or lags holds the snapshot, not the binlog.

    Later the snapshot continues.
    """
    server, replica = private_server(flavor), private_server(flavor)
    replicate(replica, server)
    _create(server, "a")
    name = f"{replica.host}:{replica.port}"
    limits = f'[throttle]\nmax_rows_per_s = {ROWS // 10}\nreplicas = ["{name}"]\nmax_replica_lag_s = 2.0\n'
    # One chunk is read before the replica is asked, and changes of d.n show that streaming continues.
    first = 'priority = ["d.n"]'
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0, snapshot=first, more=limits)
    _settle(server)
    runner = pipeline.start()
    if flavor == "mariadb":  # the grant that MySQL's user has there already
        _held(pipeline, runner, server, f"replica {name} cannot be asked: ")
        replica.execute(f"GRANT SLAVE MONITOR ON *.* TO {USER}")
    pipeline.wait_for(lambda: _chunks(pipeline, "a") > 3, runner)
    hold(replica)
    _held(pipeline, runner, server, f"replica {name} does not replicate")
    go_on(replica, delay_s=3600)
    server.execute("UPDATE d.a SET v = v + 1 WHERE id = 1")
    _held(pipeline, runner, server, f"replica {name} is ")
    assert " s behind (limit 2 s)" in pipeline.status()["waiting_for"]
    held = _chunks(pipeline, "a")
    assert held < ROWS // CHUNK_ROWS
    hold(replica)
    go_on(replica)
    _send(pipeline, runner, "throttle", "max_rows_per_s=100000")
    pipeline.wait_for(lambda: _states(pipeline)["d.a"] == "streaming", runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "a"), pipeline.mirror("a"))


def _settle(server: Server) -> None:
    """Wait until a run on MariaDB reads its first chunk at once."""
    endpoint = Endpoint(server.host, server.port, "root", "")
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        while described.flavor == "mariadb" and settled_in_s(connection, endpoint, described, 1.0, 79_000):
            time.sleep(0.1)


def _held(pipeline: Pipeline, runner: Runner, server: Server, reason: str) -> None:
    """Wait until this reason holds the snapshot; check that it stays held while the binlog is streamed."""
    pipeline.wait_for(lambda: (pipeline.status()["waiting_for"] or "").startswith(reason), runner)
    before, since = _chunks(pipeline, "a"), len(pipeline.events("epoch.committed"))
    server.execute("INSERT INTO d.n SELECT COALESCE(MAX(n), 0) + 1 FROM d.n")
    pipeline.wait_for(lambda: sum(e["changes"] for e in pipeline.events("epoch.committed")[since:]) > 0, runner)
    assert _chunks(pipeline, "a") - before <= 1, "one that was under way may end"


def _states(pipeline: Pipeline) -> dict[str, Any]:
    return {"d.b": "", "d.a": ""} | {e["table"]: e["state"] for e in pipeline.events("table.state")}


def _send(pipeline: Pipeline, runner: Runner, *words: str) -> None:
    """Send a command and wait until it is done."""
    done = len(pipeline.events("command.done"))
    sent = pipeline.command(*words)
    assert sent.returncode == 0, sent.stderr
    pipeline.wait_for(lambda: len(pipeline.events("command.done")) > done, runner)


@on("mysql")
def test_a_status_variable_that_the_source_has_not_is_named(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """By `check`, with the nearest one, and by an alert of a run, which reads no chunk."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    pipeline = new_pipeline(server, database, more="[throttle]\nmax_load = { Thread_running = 1000 }\n")
    check = pipeline.command("check", "--json")
    assert check.returncode == 3, check.stdout
    (fix,) = [one["fix"] for one in json.loads(check.stdout)["checks"] if one["name"] == "throttle"]
    assert fix == "The nearest is Threads_running."
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(a["kind"] == "helper_failed" for a in pipeline.status()["alerts"]), runner)
    assert pipeline.command("throttle", "max_load.Threads_running=1000").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["phase"] == "streaming", runner)
    pipeline.wait_for(lambda: not any(a["kind"] == "helper_failed" for a in pipeline.status()["alerts"]), runner)
    pipeline.finish(runner)
