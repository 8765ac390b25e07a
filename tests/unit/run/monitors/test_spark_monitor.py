"""A Spark that does not answer is reported while its process lives, and no longer."""

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base import clock
from engine.base.errors import SparkLostError
from engine.journal import Journal
from engine.pipeline.helpers import SPARK, Helpers
from engine.run.monitors import spark_monitor
from engine.run.monitors.spark_monitor import SparkMonitor, SparkStartMonitor
from tests.support.patience import PATIENCE_S


class Silent:
    """A session that does not answer."""

    master = "local[2]"

    def __init__(self, pid: int) -> None:
        self.driver_pid = pid
        self.answers = threading.Event()

    def ping(self) -> None:
        """Wait."""
        self.answers.wait()


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helpers:
    """Of a run; what they report is checked often."""
    monkeypatch.setattr(spark_monitor, "_INTERVAL_S", 0.01)
    monkeypatch.setattr(spark_monitor, "_PATIENCE_S", 0.05)
    return Helpers(Journal(tmp_path / "j.jsonl", "r"))


def wait_for(found: Callable[[], Any]) -> None:
    """Until it is true."""
    until_s = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_what_is_reported_ends_with_the_process(helpers: Helpers) -> None:
    """Nobody is told to kill a process that is gone; the session that follows is not silent."""
    with subprocess.Popen(["sleep", "600"]) as driver:
        session: Any = Silent(driver.pid)
        monitor = SparkMonitor(session, helpers)
        wait_for(helpers.as_list)
        (failure,) = helpers.as_list()
        assert (failure["helper"], f"process {driver.pid}" in failure["message"]) == (SPARK, True)
        driver.kill()
        driver.wait()
        monitor.close()
        assert helpers.as_list() == []
        again = SparkMonitor(session, helpers)
        wait_for(lambda: again._question)
        again._question = "2026-01-01T00:00:00Z", clock.monotonic_s() - 100
        again._require_answer()  # the process is gone: the next job says so
        again.close()
    session.answers.set()


def test_a_session_that_is_replaced_is_said_to_be(helpers: Helpers) -> None:
    """From the loss until the new one has started."""
    monitor = SparkStartMonitor("local[2]", helpers, SparkLostError("Spark's process 7 has ended."))
    (failure,) = helpers.as_list()
    assert (failure["helper"], failure["message"]) == (
        SPARK,
        "Spark is being started again: Spark's process 7 has ended.",
    )
    monitor.close()
    assert helpers.as_list() == []


def test_a_jvm_that_is_stopped_while_it_starts_is_named(
    helpers: Helpers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session too; what is said then is how to continue it."""
    java = tmp_path / "java"
    shutil.copy(shutil.which("sleep") or "sleep", java)
    with subprocess.Popen([java, "600"]) as driver:
        monitor = SparkStartMonitor("local[2]", helpers)
        assert helpers.as_list() == []
        driver.send_signal(signal.SIGSTOP)
        wait_for(helpers.as_list)
        (failure,) = helpers.as_list()
        assert f"process {driver.pid}" in failure["message"]
        assert f"kill -CONT {driver.pid}" in failure["hint"]
        driver.send_signal(signal.SIGCONT)
        wait_for(lambda: not helpers.as_list())
        monitor.close()
        driver.kill()
