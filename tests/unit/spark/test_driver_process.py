"""The driver's JVM starts early: by a Spark whose `spark-submit` is a script of the test."""

import os
import signal
import sys
import threading
from pathlib import Path

import psutil
import pytest

from engine.base.errors import SparkLostError
from engine.spark.class_archive import VARIABLE
from engine.spark.driver_process import DriverProcess, EarlyDriver, spark_home, start_early
from engine.spec.settings import Spark

LOCAL = Spark(master="local[2]")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark whose driver waits for ever; the environment is restored afterwards."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, os.environ.get(name, sys.executable if name == "PYSPARK_PYTHON" else "127.0.0.1"))
    monkeypatch.setenv(VARIABLE, "off")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "bin").mkdir()
    driver(tmp_path, "exec sleep 1000")
    return tmp_path


def driver(home: Path, script: str) -> None:
    """Let `spark-submit` be this script."""
    submit = home / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)


def test_a_driver_that_starts_can_be_killed(home: Path) -> None:
    """Whoever waits for it learns that at once, and no process is left."""
    process = DriverProcess(LOCAL, home)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            process.gateway()
        except SparkLostError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    process.kill()
    waiting.join()
    assert [type(error) for error in errors] == [SparkLostError]
    assert not psutil.pid_exists(process.process.pid)
    process.kill()  # harmless


def test_a_driver_that_ends_by_itself_is_none(home: Path) -> None:
    """PySpark then starts one, and says what is wrong."""
    driver(home, "exit 1")
    process = DriverProcess(LOCAL, home)
    assert process.gateway() is None
    process.kill()


def test_ctrl_c_is_for_the_run(home: Path) -> None:
    """A terminal sends it to all processes; the run ends its driver."""
    process = DriverProcess(LOCAL, home)
    process.process.send_signal(signal.SIGINT)
    assert process.process.poll() is None
    process.kill()
    assert process.process.returncode == -signal.SIGTERM


def test_the_command_line_has_no_secrets(home: Path) -> None:
    """Every user of the machine can read it. Everything else is there before the JVM starts."""
    driver(home, f'echo "$@" > {home}/words; exec sleep 1000 < /dev/null')
    settings = Spark(master="local[2]", conf={"spark.x.password": "hidden-one", "spark.driver.memory": "2g"})
    process = DriverProcess(settings, home)
    while not (home / "words").exists() or not (home / "words").read_text():
        assert process.process.poll() is None
    process.kill()
    words = (home / "words").read_text()
    assert "hidden-one" not in words
    assert "--conf spark.driver.memory=2g" in words
    assert words.strip().endswith("pyspark-shell")


def test_no_driver_starts_where_the_session_needs_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Connect server has its own; `spark-submit` has started one; a standby of a cluster may wait for days."""
    assert start_early(Spark(master="sc://h:15002")) is None
    assert start_early(Spark(master="spark://h:7077"), standby=True) is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert start_early(LOCAL) is None
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    (home / "bin" / "spark-submit").unlink()
    assert start_early(LOCAL) is None, "PySpark says that there is no Spark"


def test_a_driver_that_no_session_took_is_ended(home: Path) -> None:
    """Whoever took it ends it."""
    early = start_early(LOCAL)
    assert isinstance(early, EarlyDriver)
    early.end()
    assert early.take() is None
    early = start_early(Spark(master="spark://h:7077"))
    assert early is not None
    process = early.take()
    assert process is not None
    early.end()
    assert process.process.poll() is None
    early.kill()
    assert process.process.poll() is not None


def test_spark_is_found_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PySpark was installed."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = spark_home()
    assert found is not None
    assert (found / "bin" / "spark-submit").is_file()
