"""What is decided about a table is in the ledger until it is done, and a mirror that gets nothing is never green."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server
from tests.support.depth import on

QUIET = '[verify]\nperiod = "off"\n[alerts]\nmirror_behind_s = 5\n'
MERGE_S = 12.0
"""Long enough for changes to be deleted before they are merged."""


def _filled(server: Server) -> None:
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)")


def _lose_changes(pipeline: Pipeline, runner: Runner, server: Server) -> None:
    """A cleaner deletes changes that are not merged yet, during a pause, until the publisher has noticed.

    It may have noticed before the pause began; a table that stops for that is stopped already.
    """
    server.execute("INSERT INTO d.t VALUES (3, 3), (4, 4)")
    pipeline.wait_for(lambda: _change_files(pipeline), runner)
    for name in _change_files(pipeline):
        (pipeline.changes("t") / name).unlink()
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["state"] == "paused", runner)
    pipeline.wait_for(lambda: _oldest(pipeline) > MERGE_S + 4 or _state(pipeline) == "stopped", runner)


def _change_files(pipeline: Pipeline) -> list[str]:
    parts = [epoch["tables"].get("d.t", {}).get("changes", {}) for epoch in pipeline.epochs()]
    return [file["name"] for part in parts for file in part.get("files", [])]


def _oldest(pipeline: Pipeline) -> float:
    """The age of the oldest change that a mirror lacks, as last measured."""
    measured = pipeline.events("source.lag")
    return float(measured[-1]["mirror_age_s"]) if measured else 0.0


def _state(pipeline: Pipeline) -> str:
    return str(pipeline.status()["tables"][0]["state"])


def _copied(pipeline: Pipeline) -> int:
    """How often the table's copy was completed."""
    return sum(event["state"] == "streaming" for event in pipeline.events("table.state"))


def _alerts(pipeline: Pipeline) -> list[str]:
    return [alert["kind"] for alert in pipeline.status()["alerts"]]


def _verified(pipeline: Pipeline) -> list[dict[str, Any]]:
    result = pipeline.command("verify", "--json")
    found: list[dict[str, Any]] = json.loads(result.stdout)["tables"]
    return found


@pytest.mark.soak
@on("mysql")
def test_a_resnapshot_that_was_decided_is_made_although_its_epoch_fails(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """The source takes no connection in the moment after the decision.

    Until it is done, the age of the mirror grows, an alert stands, and neither `status` nor `verify` takes the mirror
    for right.
    """
    server = private_server(flavor)
    _filled(server)
    pipeline = new_pipeline(server, "d", poll=0.3, merge=MERGE_S, more=QUIET)
    runner = pipeline.start_streaming()
    _lose_changes(pipeline, runner, server)
    pipeline.wait_for(lambda: _alerts(pipeline) == ["mirror_behind"], runner)
    (found,) = _verified(pipeline)
    assert (found["verdict"], found["differences_total"]) == ("lagging", 0)
    assert "the runner is paused" in found["why"]
    server.execute("INSERT INTO d.t VALUES (5, 5)")
    ((most,),) = server.execute("SELECT @@GLOBAL.max_connections")
    with closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET GLOBAL max_connections = 1")  # those that are open stay open
        assert pipeline.command("resume").returncode == 0
        pipeline.wait_for(lambda: pipeline.events("source.away"), runner)
        (table,) = pipeline.status()["tables"]
        assert table["due"]
        assert table["verification"]["state"] != "verified"
        cursor.execute(f"SET GLOBAL max_connections = {most}")
    pipeline.wait_for(lambda: _copied(pipeline) == 2, runner, 90)
    pipeline.wait_for(lambda: _alerts(pipeline) == [], runner)
    assert _verified(pipeline)[0]["verdict"] == "verified"
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


@pytest.mark.soak
def test_a_table_that_lost_files_while_no_runner_was_alive_is_repaired_alone(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The next run streams the others on, and resnapshots that one as it would have done while it ran."""
    for name in "tu":
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO {database}.{name} VALUES (1), (2)")
    pipeline = new_pipeline(server, database, poll=0.3, merge=0.5, more=QUIET)
    runner = pipeline.start_streaming()
    runner.kill()
    runner.wait()
    for path in pipeline.mirror("t").glob("*.parquet"):
        path.unlink()
    for name in "tu":
        server.execute(f"INSERT INTO {database}.{name} VALUES (3)")
    pipeline.run("caught-up")
    for name in "tu":
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    (repaired,) = pipeline.events("source.event")
    assert (repaired["kind"], repaired["table"]) == ("resnapshotted", f"{database}.t")
    assert "1 data file" in repaired["reason"]
    assert "is gone" in repaired["reason"]


@pytest.mark.soak
@on("mariadb")
def test_a_resume_of_a_stopped_table_outlives_the_runner(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """The command is answered once the ledger has the resnapshot, by whichever run commits it."""
    server = private_server(flavor)
    _filled(server)
    pipeline = new_pipeline(server, "d", poll=0.3, merge=MERGE_S, more=QUIET, source='schema_changes = "stop"')
    runner = pipeline.start_streaming(killed=True)
    _lose_changes(pipeline, runner, server)
    assert pipeline.command("resume").returncode == 0
    pipeline.wait_for(lambda: _state(pipeline) == "stopped", runner)
    assert "redump SPEC --table d.t" in pipeline.status()["tables"][0]["hint"]
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["state"] == "paused", runner)
    assert pipeline.command("resume", "--table", "d.t").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("command.accepted")[-1]["what"] == "d.t", runner)
    assert len(list((pipeline.home / "inbox").glob("*.json"))) == 1, "no epoch can say so during a pause"
    runner.kill()
    runner.wait()
    runner = pipeline.start()
    pipeline.wait_for(lambda: _copied(pipeline) == 2, runner, 90)
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    assert not list((pipeline.home / "inbox").glob("*.json"))


@on("mariadb")
def test_a_resume_of_a_table_whose_folder_is_gone_is_not_lost(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It was sent while no runner was alive; the next one resnapshots the table before it streams."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    pipeline = new_pipeline(server, database, poll=0.3, merge=0.5, more=QUIET)
    pipeline.run("caught-up")
    shutil.move(pipeline.mirror("t"), pipeline.folder / "moved")
    assert pipeline.command("run", "--until", "caught-up").returncode == 7
    assert pipeline.command("resume", "--table", f"{database}.t").returncode == 0
    server.execute(f"INSERT INTO {database}.t VALUES (3)")
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    assert not list((pipeline.home / "inbox").glob("*.json"))
