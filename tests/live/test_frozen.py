"""A runner whose process is stopped: its state, its alert and its words say so, and nothing is lost."""

import re
import signal
import socket
import subprocess
import threading

import psutil
import pytest

from app.common.view.runner_view import runner_of, stop_during_start
from engine.base import processes
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import HEARTBEAT_STALE_S, read_runner
from engine.watch.background import watch
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.sessions import spark_settings
from tests.servers import Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S
from tests.support.receiver import Receiver

SETTINGS = """
[alerts]
webhook_env = "TIDEMARK_TEST_WEBHOOK"
[watch]
restart = "on-failure"
first_delay_s = 0
"""


@pytest.mark.soak
def test_a_stopped_runner_is_reported_within_seconds_and_continues_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the pipeline, so the watchdog starts no other. Killed as the other hint says, a new one continues."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.a VALUES (1, 1), (2, 2)")
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.2, more=SETTINGS)
    runner = pipeline.start_streaming(killed=True)
    ended, where = threading.Event(), Directory(pipeline.home)
    watchdog = threading.Thread(target=watch, args=(lambda: [where], lambda *_: None, ended))
    watchdog.start()
    try:
        runner.send_signal(signal.SIGSTOP)
        server.execute(f"INSERT INTO `{database}`.a VALUES (3, 3)")
        pipeline.wait_for(lambda: receiver.got, runner)
        found = pipeline.status()
        assert (found["state"], found["lag_s"]) == ("frozen", None)
        assert (found["frozen"]["pid"], found["frozen"]["stopped"]) == (runner.pid, True)
        assert found["heartbeat_age_s"] >= HEARTBEAT_STALE_S
        assert [alert["kind"] for alert in found["alerts"]] == ["runner_frozen"]
        _follow("kill -CONT", pipeline)
        pipeline.wait_for(lambda: len(receiver.got) == 2, runner)
        pipeline.wait_for(lambda: any(e["changes"] for e in pipeline.events("epoch.committed")), runner)
    finally:
        ended.set()
        watchdog.join()
    found = pipeline.status()
    assert (found["state"], found["frozen"], found["alerts"]) == ("running", None, [])
    assert [(got["event"], got["kind"]) for got in receiver.got] == [
        ("alert.raised", "runner_frozen"),
        ("alert.cleared", "runner_frozen"),
    ]
    assert len(pipeline.events("run.started")) == 1
    runner.send_signal(signal.SIGSTOP)
    server.execute(f"INSERT INTO `{database}`.a VALUES (4, 4)")
    pipeline.wait_for(lambda: (record := read_runner(where)) and record.frozen, runner)
    _check_from_another_host(pipeline, runner, monkeypatch)
    _follow("kill -9", pipeline)
    runner.wait()
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "a"), pipeline.mirror("a"))


def _check_from_another_host(pipeline: Pipeline, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, nobody can know whether the process has ended; the hint's command shows it on its own host."""
    where = Directory(pipeline.home)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(processes, "lives", lambda *_: None)
        elsewhere.setattr(socket, "gethostname", lambda: "another")
        pipeline.wait_for(lambda: (record := read_runner(where)) and record.unseen, runner)
        record = read_runner(where)
    assert record is not None
    assert record.unseen is not None
    assert (record.alive, record.frozen) == (False, None)
    assert "cannot be seen from here: it may have ended, hang or be stopped" in record.unseen.message
    command = re.search(r"ps -o stat,args -p \d+", record.unseen.hint)
    assert command is not None
    shown = subprocess.run(command[0].split(), capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[1].startswith("T")
    assert f"kill -CONT {runner.pid}" in record.unseen.hint


@pytest.mark.soak
@on("mysql")
def test_a_stopped_spark_is_named_and_ended_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It is not the runner that is slow. Continued or killed as the hint says, the same run continues."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.a VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.2, spark=spark_settings("local[2]"))
    runner = pipeline.start_streaming(killed=True)
    (driver,) = [one for one in psutil.Process(runner.pid).children() if one.name() == "java"]
    for key, command in ((3, "kill -CONT"), (4, "kill -9")):
        driver.suspend()
        server.execute(f"INSERT INTO `{database}`.a VALUES ({key}, {key})")
        pipeline.wait_for(lambda: pipeline.status()["helpers"], runner)
        shown = pipeline.status()
        (silence,) = shown["helpers"]
        assert silence["message"].startswith("Spark does not answer since ")
        assert f"its process {driver.pid} on " in silence["message"]
        (alert,) = shown["alerts"]
        assert alert["message"].startswith(silence["message"])
        assert silence["message"] in " ".join(pipeline.command("status").stdout.split())
        advised = re.search(f"{command} [0-9]+", silence["hint"])
        assert advised is not None
        subprocess.run(advised[0].split(), check=True)
        pipeline.wait_for(lambda: not pipeline.status()["helpers"], runner)
    pipeline.finish(runner)
    assert len(pipeline.events("run.started")) == 1
    assert_equal(source_table(server, database, "a"), pipeline.mirror("a"))


def _follow(command: str, pipeline: Pipeline) -> None:
    """Execute a command that `status` advises."""
    state, advice = pipeline.command("status").stdout.splitlines()[:2]
    assert state.startswith("shop: not responding, last heartbeat "), state
    advised = re.search(f"{command} [0-9]+", advice)
    assert advised is not None, advice
    subprocess.run(advised[0].split(), check=True)


@pytest.mark.soak
@on("mysql")
def test_a_spark_that_ends_while_nothing_is_read_is_started_again(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """No job notices that. Meanwhile `status` says so; the next change finds a session that answers."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.a VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.2, spark=spark_settings("local[2]"))
    runner = pipeline.start_streaming(killed=True)
    (driver,) = [one for one in psutil.Process(runner.pid).children() if one.name() == "java"]
    driver.kill()
    pipeline.wait_for(lambda: pipeline.events("helper.recovered"), runner)
    (said,) = [event for event in pipeline.events("error") if event.get("helper") == "Spark"]
    assert said["message"] == f"Spark is being started again: Spark's process {driver.pid} has ended."
    server.execute(f"INSERT INTO `{database}`.a VALUES (3, 3)")
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "a"), pipeline.mirror("a"))


def test_a_stop_while_spark_hangs_at_its_start_is_ended_by_the_second_kill(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The page has that command: no button ends such a run."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY, v INT)")
    pipeline = new_pipeline(server, database, spark=spark_settings("local[2]"))
    runner, where = pipeline.start(killed=True), Directory(pipeline.home)

    def state() -> str:
        record = read_runner(where)
        return stop_during_start(runner_of(record, None)) if record is not None and record.helpers else ""

    def drivers() -> list[psutil.Process]:
        return [one for one in psutil.Process(runner.pid).children() if one.name() == "java"]

    pipeline.wait_for(drivers, runner)
    (driver,) = drivers()
    driver.suspend()
    try:
        pipeline.wait_for(lambda: pipeline.status()["helpers"], runner)
        assert pipeline.command("stop").returncode == 0
        pipeline.wait_for(state, runner)
        command = f"kill {runner.pid}"
        assert f": {command}." in state()
        while runner.poll() is None:  # two that arrive together count as one
            subprocess.run(command.split(), check=False)
        assert runner.wait(PATIENCE_S) == 128 + signal.SIGTERM
    finally:
        driver.kill()
