"""What a runner prints of faults that it knows: a line each, no traceback of Python or Java."""

import signal
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import psutil
import pytest

from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.pipeline.runner_record import RunnerRecord
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.sessions import spark_settings
from tests.live.test_outage import hanging
from tests.servers import Server
from tests.support.depth import on
from tests.support.mounts import Small, immutable, mounted
from tests.support.patience import PATIENCE_S

MB = 1 << 20


@pytest.mark.soak
@on("mysql")
def test_known_faults_print_no_tracebacks(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """A full, read-only or forbidden destination, a source that is away or hangs, a Spark that dies.

    The run continues after each, and ends by a stop while the source hangs.
    """
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    with mounted(tmp_path / "lake", 16 * MB) as lake:
        pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5, spark=spark_settings("local[2]"))
        runner = pipeline.start_streaming(killed=True)
        try:
            _fill(pipeline, server, runner, lake)
            with immutable(pipeline.changes("t")):
                _wait_unwritten(pipeline, server, runner, 3)
            _wait_written(pipeline, runner)
            server.kill()
            pipeline.wait_for(lambda: _shown(pipeline).away, runner)
            server.restart()
            pipeline.wait_for(lambda: _shown(pipeline).away is None, runner)
            _kill_spark(runner)
            server.execute("INSERT INTO d.t VALUES (4)")
            pipeline.wait_for(lambda: "SparkLostError" in {one["error"] for one in pipeline.events("error")}, runner)
            pipeline.finish(runner)
            assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))

            runner = pipeline.start(killed=True)
            pipeline.wait_for(lambda: _shown(pipeline).state == "running", runner)
            with hanging(server):
                pipeline.wait_for(lambda: _shown(pipeline).away, runner)
                runner.send_signal(signal.SIGTERM)
                assert runner.wait(timeout=PATIENCE_S) == 0
        finally:
            pipeline.kill()
    _require_lines(pipeline.output)


def _require_lines(output: str) -> None:
    """No traceback, and no error of Spark's own log beside the run's line."""
    traces = [line for line in output.splitlines() if "Traceback" in line or line.startswith("\tat ")]
    assert traces == [], output[-5000:]
    assert [line for line in output.splitlines() if " ERROR " in line] == [], output[-5000:]
    for words in ("A disk is full: ", "A file system is read-only: ", "A folder may not be written: "):
        assert f"alert: {words}" in output


def _fill(pipeline: Pipeline, server: Server, runner: Runner, lake: Small) -> None:
    """Let the destination's disk be full, then read-only."""
    lake.fill()
    _wait_unwritten(pipeline, server, runner, 1)
    lake.free()
    _wait_written(pipeline, runner)
    pipeline.wait_for(lambda: _made_read_only(lake), runner)
    _wait_unwritten(pipeline, server, runner, 2)
    lake.make_writable()
    _wait_written(pipeline, runner)


def _wait_unwritten(pipeline: Pipeline, server: Server, runner: Runner, key: int) -> None:
    server.execute(f"INSERT INTO d.t VALUES ({key})")
    pipeline.wait_for(lambda: _shown(pipeline).write_outage, runner)


def _wait_written(pipeline: Pipeline, runner: Runner) -> None:
    pipeline.wait_for(lambda: _shown(pipeline).write_outage is None, runner)


def _made_read_only(disk: Small) -> bool:
    """Whether the disk is read-only: it can be made so while no file on it is being written."""
    with suppress(CalledProcessError):
        disk.make_read_only()
        return True
    return False


def _kill_spark(runner: Runner) -> None:
    (driver,) = [one for one in psutil.Process(runner.pid).children() if one.name() == "java"]
    driver.kill()


def _shown(pipeline: Pipeline) -> RunnerRecord:
    return read_runner(Directory(pipeline.home)) or RunnerRecord("")
