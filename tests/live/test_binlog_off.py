"""A source that writes no binlog for a while: no run skips the gap before a resnapshot."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from engine.base.errors import BinlogOffError
from engine.capture.binlog.commit_visibility import CommitVisibility
from engine.capture.binlog.xa_visibility import XaVisibility
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.watermarks import Watermarks
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ServerFactory = Callable[..., Server]


@contextmanager
def binlog_off(server: Server) -> Iterator[None]:
    """Restart the server without its binlog, and afterwards with it."""
    options = server.options
    server.restart(skip_log_bin=True)
    try:
        yield
    finally:
        server.options = options
        server.restart()


def _streaming(server: Server, new_pipeline: PipelineFactory) -> Pipeline:
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    return new_pipeline(server, "d")


def _refused(pipeline: Pipeline, says: str) -> None:
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stdout + result.stderr
    printed = " ".join(result.stderr.split())
    assert says in printed
    assert "tidemark redump SPEC --all" in printed


def test_a_stream_whose_source_stops_its_binlog_ends_and_is_copied_again(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The run ends within seconds with the reason.

    Runs are refused until all tables are resnapshotted; then they are equal.
    """
    server = private_server(flavor)
    pipeline = _streaming(server, new_pipeline)
    runner = pipeline.start_streaming()
    with binlog_off(server):
        server.execute("INSERT INTO d.t VALUES (3, 3)")
        server.execute("DELETE FROM d.t WHERE id = 1")
        assert runner.wait(timeout=PATIENCE_S) == 4
        (error,) = [event["error"] for event in pipeline.events("run.ended")]
        assert error["error"] == "BinlogOffError"
        assert error["message"] == "The source writes no binlog: log_bin is off."
        assert error["hint"] == "Start the server with log_bin. To resnapshot the tables: tidemark redump SPEC --all"
        assert pipeline.status()["error"] == error
        _refused(pipeline, "The source writes no binlog")
    server.execute("INSERT INTO d.t VALUES (4, 4)")
    _refused(pipeline, "The source wrote no binlog at 20")
    assert pipeline.command("redump", "--all", "--reason", "the binlog was off").returncode == 0
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    server.execute("UPDATE d.t SET v = 0")
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


@on("mariadb")
def test_a_paused_run_ends_too(flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory) -> None:
    """The lag monitor sees it."""
    server = private_server(flavor)
    pipeline = _streaming(server, new_pipeline)
    runner = pipeline.start_streaming()
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "paused", runner)
    with binlog_off(server):
        assert runner.wait(timeout=PATIENCE_S) == 4
    _refused(pipeline, "The source wrote no binlog at 20")


@on("mysql")
def test_a_start_that_finds_no_binlog_notes_it(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """Though nothing ran when it was switched off. A pipeline that never ran notes nothing.

    A resnapshot repairs it, also after a reset of the binlog.
    """
    server = private_server(flavor)
    pipeline = _streaming(server, new_pipeline)
    with binlog_off(server):
        result = pipeline.command("run", "--until", "caught-up")
        assert result.returncode == 3, result.stderr
        assert "log_bin: expected ON; is OFF" in result.stderr
    pipeline.run("caught-up")
    with binlog_off(server):
        server.execute("INSERT INTO d.t VALUES (3, 3)")
        _refused(pipeline, "The source writes no binlog")
    _refused(pipeline, "The source wrote no binlog at 20")
    server.execute("RESET BINARY LOGS AND GTIDS" if flavor == "mysql" else "RESET MASTER")
    assert pipeline.command("redump", "--all", "--reason", "the binlog was off").returncode == 0
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


@on("mysql")
def test_a_start_notes_a_binlog_that_the_server_closed_after_an_error(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The variable log_bin remains ON. A restart repairs it, as `check` says; then all tables are resnapshotted."""
    server = private_server(flavor)
    pipeline = _streaming(server, new_pipeline)
    pipeline.run("caught-up")
    server.execute("SET GLOBAL binlog_error_action = 'IGNORE_ERROR'")
    base = server.execute("SHOW BINARY LOGS")[0][0].rpartition(".")[0]
    last = Path(server.execute("SELECT @@datadir")[0][0]) / f"{base}.2147483647"  # no file may follow it
    last.touch()
    with pytest.raises(pymysql.Error, match="unique log-filename"):
        server.execute("FLUSH BINARY LOGS")
    assert server.execute("SELECT @@log_bin") == ((1,),)
    server.execute("INSERT INTO d.t VALUES (3, 3)")
    _refused(pipeline, "The source writes no binlog")
    assert _log_bin(pipeline)["outcome"] == "fail"
    assert _log_bin(pipeline)["fix"].startswith("Restart the server: it closed its binlog after an error")
    last.unlink()  # what the error log names
    server.restart()
    assert _log_bin(pipeline)["outcome"] == "ok"
    _refused(pipeline, "The source wrote no binlog at 20")
    assert pipeline.command("redump", "--all").returncode == 0
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


def _log_bin(pipeline: Pipeline) -> dict[str, Any]:
    """The result of `check` for log_bin."""
    checks = json.loads(pipeline.command("check", "--json").stdout)["checks"]
    return next(check for check in checks if check["name"] == "log_bin")


@on("mariadb")
def test_there_are_no_watermarks_without_a_binlog(flavor: str, private_server: ServerFactory) -> None:
    """Not even from a snapshot, whose position is empty then."""
    server = private_server(flavor)
    endpoint = Endpoint(server.host, server.port, "root", "")
    with binlog_off(server), closing(open_connection(endpoint)) as connection:
        watermarks = Watermarks(
            connection,
            describe(connection),
            "snapshot",
            0.0,
            XaVisibility(endpoint, 79_000),
            CommitVisibility(endpoint, 79_500),
        )
        with pytest.raises(BinlogOffError):
            watermarks.low()
