"""Watchdogs and a real runner: it is killed, announced, started again by exactly one of them, and loses nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import PASSWORD, Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S
from tests.support.receiver import Receiver

ROOT = Path(__file__).parents[2]
SETTINGS = """
[alerts]
webhook_env = "TIDEMARK_TEST_WEBHOOK"
[watch]
restart = "on-failure"
first_delay_s = 0.5
"""


@contextmanager
def _watch(pipeline: Pipeline, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (pipeline.folder / "watch.log").open("ab") as log:
        watch = _started(pipeline, variables, log)
        try:
            yield watch
        finally:
            watch.kill()
            watch.wait()


def _started(pipeline: Pipeline, variables: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine", "watch", str(pipeline.folder)],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.soak
@on("mariadb")
def test_a_killed_runner_is_announced_and_started_again_by_one_of_two_watchdogs(
    server: Server, database: str, new_pipeline: PipelineFactory, receiver: Receiver
) -> None:
    """It continues from the committed position. A runner that is stopped by an operator stays down."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.a VALUES (1, 1), (2, 2)")
    variables = {"TIDEMARK_TEST_WEBHOOK": receiver.url}
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.2, more=SETTINGS, environment=variables)
    runner = pipeline.start_streaming(killed=True)
    where = Directory(pipeline.home)
    with _watch(pipeline, variables | {"TIDEMARK_TEST_PASSWORD": PASSWORD}) as one:
        with _watch(pipeline, variables | {"TIDEMARK_TEST_PASSWORD": PASSWORD}):
            runner.kill()
            runner.wait()
            server.execute(f"INSERT INTO `{database}`.a VALUES (3, 3)")
            pipeline.wait_for(lambda: _runs(pipeline) == 2 and _state(where) == "running", one)
            pipeline.wait_for(lambda: len(receiver.got) >= 2, one)
        assert [(m["event"], m["kind"]) for m in receiver.got] == [
            ("alert.raised", "runner_lost"),
            ("alert.cleared", "runner_lost"),
        ]
        (restarted,) = pipeline.events("watch.restarted")
        assert restarted["restart"] == 1
        record = read_runner(where)
        assert record is not None
        assert (record.pid, record.alive) == (restarted["pid"], True)
        assert pipeline.status()["alerts"] == []
        pipeline.wait_for(lambda: any(e["changes"] for e in pipeline.events("epoch.committed")), one)
        try:
            assert pipeline.command("stop").returncode == 0
            pipeline.wait_for(lambda: _state(where) == "ended", one)
            one.send_signal(signal.SIGTERM)  # it has looked at the stopped runner when it ends
            assert one.wait(PATIENCE_S) == 0
        finally:
            _kill(int(restarted["pid"]))
    assert _runs(pipeline) == 2
    assert len(pipeline.events("watch.restarted")) == 1
    assert_equal(source_table(server, database, "a"), pipeline.mirror("a"))


@on("mariadb")
def test_a_stop_that_a_hanging_runner_never_took_keeps_it_down(
    server: Server, database: str, new_pipeline: PipelineFactory, receiver: Receiver
) -> None:
    """It was killed for that. The stop is answered in its journal, and the loss is announced all the same."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY)")
    variables = {"TIDEMARK_TEST_WEBHOOK": receiver.url}
    pipeline = new_pipeline(server, database, more=SETTINGS, environment=variables)
    runner = pipeline.start_streaming(killed=True)
    runner.send_signal(signal.SIGSTOP)
    assert pipeline.command("stop").returncode == 0
    runner.kill()
    runner.wait()
    with _watch(pipeline, variables | {"TIDEMARK_TEST_PASSWORD": PASSWORD}) as watch:
        pipeline.wait_for(lambda: receiver.got, watch)
        pipeline.wait_for(lambda: pipeline.events("command.done"), watch)
    assert "asked it to stop" in pipeline.status()["watch"]["down"]
    assert [one["kind"] for one in receiver.got] == ["runner_lost"]
    assert _runs(pipeline) == 1
    assert pipeline.events("watch.restarted") == []


def _runs(pipeline: Pipeline) -> int:
    return len(pipeline.events("run.started"))


def _state(where: Directory) -> str:
    record = read_runner(where)
    return record.state if record else ""


def _kill(pid: int) -> None:
    """End the runner that a watchdog has started, if it is still there."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if "engine" in process.cmdline():
            process.kill()


@on("mariadb")
def test_a_stopped_table_is_no_failure_for_a_service_manager(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """`run --service` ends with 0 when it is stopped; without it the exit code is 1, which names the table."""
    for name in "ab":
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, source='schema_changes = "stop"')
    runner = pipeline.start("--service")
    pipeline.wait_for(
        lambda: len([e for e in pipeline.events("table.state") if e["state"] == "streaming"]) == 2, runner
    )
    server.execute(f"TRUNCATE TABLE `{database}`.a")
    pipeline.wait_for(lambda: any(e["state"] == "stopped" for e in pipeline.events("table.state")), runner)
    assert pipeline.command("stop").returncode == 0
    assert runner.wait(timeout=PATIENCE_S) == 0
    again = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 2, again)
    assert pipeline.command("stop").returncode == 0
    assert again.wait(timeout=PATIENCE_S) == 1
    ended = pipeline.events("run.ended")
    assert [e["outcome"] for e in ended] == ["stopped", "stopped"]
