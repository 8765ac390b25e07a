"""The account may no longer read one table, and gets the privilege back: other tables never wait."""

import json
import signal
import time
from typing import Any

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import USER, Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ROWS = 2000
GRANTED_S = 60.0
"""A table continues within 30 seconds of the grant; the machine may be slow."""


def _create(server: Server) -> None:
    """Create two tables that the account may read by grants of their own."""
    server.execute("CREATE DATABASE d")
    for table in ("t", "u"):
        server.execute(f"CREATE TABLE d.{table} (id INT PRIMARY KEY, v INT)")
        rows = ", ".join(f"({n}, 0)" for n in range(ROWS if table == "t" else 10))
        server.execute(f"INSERT INTO d.{table} VALUES {rows}")
    server.execute(f"REVOKE SELECT ON *.* FROM '{USER}'@'%'")
    for table in ("t", "u"):
        server.execute(f"GRANT SELECT ON d.{table} TO '{USER}'@'%'")


def _refused(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The alerts on the table."""
    alerts: list[dict[str, Any]] = pipeline.status()["alerts"]
    return [one for one in alerts if (one["kind"], one["table"]) == ("privileges_missing", "d.t")]


def _grant(pipeline: Pipeline, server: Server) -> None:
    """Run the statement of the alert."""
    (alert,) = _refused(pipeline)
    statement = f"GRANT SELECT ON `d`.`t` TO '{USER}'@'%';"
    assert alert["message"].startswith("The account may not read d.t: ")
    assert alert["hint"].endswith(statement)
    assert statement in " ".join(pipeline.command("status").stdout.split())
    server.execute(statement)


def test_a_redump_of_a_table_that_the_account_may_not_read_waits_for_the_grant(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """An alert and `status` have the statement; another table continues, and the redump is done after the grant."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()

    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    assert pipeline.command("redump", "--table", "d.t").returncode == 0
    pipeline.wait_for(lambda: _refused(pipeline), runner)
    server.execute("INSERT INTO d.u VALUES (100, 7)")
    pipeline.wait_for(lambda: 7 in lake_table(pipeline.mirror("u"))["v"].to_pylist(), runner)
    assert not pipeline.events("command.done")
    assert not pipeline.events("source.away")

    _grant(pipeline, server)
    pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
    pipeline.wait_for(lambda: not _refused(pipeline), runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))

    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    check = pipeline.command("check", "--json")
    assert check.returncode == 3, check.stdout
    (fix,) = [one["fix"] for one in json.loads(check.stdout)["checks"] if one["name"] == "SELECT"]
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: _unmet(pipeline), runner)
    assert "SELECT is missing on d.t" in _unmet(pipeline)[0]["message"]
    assert fix in _unmet(pipeline)[0]["hint"]
    server.execute("ALTER TABLE d.t ADD COLUMN w INT DEFAULT 5")
    pipeline.wait_for(lambda: _state(pipeline) == "stopped", runner)
    assert pipeline.command("check").returncode == 3, "a table that waits for the grant is still looked at"
    server.execute(fix)
    pipeline.wait_for(lambda: _state(pipeline) == "streaming", runner)
    pipeline.wait_for(lambda: not _unmet(pipeline), runner)
    pipeline.finish(runner)
    assert pipeline.command("check").returncode == 0


def _state(pipeline: Pipeline) -> str:
    """The state of the table now."""
    return str(next(one["state"] for one in pipeline.status()["tables"] if one["table"] == "d.t"))


def _unmet(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The alert on what the source lacks."""
    return [one for one in pipeline.status()["alerts"] if one["kind"] == "source_settings"]


def test_a_copy_of_a_table_that_the_account_may_not_read_any_more_waits_for_the_grant(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """No chunk is parked; the other table streams meanwhile."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", chunk_rows=50, poll=0.2, merge=0.5, more="[throttle]\nmax_rows_per_s = 100\n")
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(e["table"] == "d.t" for e in pipeline.events("chunk.finished")), runner)

    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    pipeline.wait_for(lambda: _refused(pipeline), runner)
    server.execute("INSERT INTO d.u VALUES (100, 7)")
    pipeline.wait_for(lambda: ("d.u", "streaming") in _states(pipeline), runner)
    pipeline.wait_for(lambda: 7 in lake_table(pipeline.mirror("u"))["v"].to_pylist(), runner)
    assert ("d.t", "streaming") not in _states(pipeline)

    _grant(pipeline, server)
    assert pipeline.command("throttle", "max_rows_per_s=1000000").returncode == 0
    pipeline.wait_for(lambda: ("d.t", "streaming") in _states(pipeline), runner)
    pipeline.finish(runner)
    assert not pipeline.events("chunk.parked")
    assert not _refused(pipeline)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


def test_a_table_that_is_altered_while_the_account_may_not_read_it_waits(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The catalog hides it as if it was dropped. Another table streams; the same run copies it after the grant."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()

    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    server.execute("ALTER TABLE d.t ADD COLUMN w INT")
    server.execute("INSERT INTO d.t VALUES (5000, 0, 7)")
    pipeline.wait_for(lambda: _refused(pipeline), runner)
    _insert_elsewhere(pipeline, server, runner, 100)
    assert ("d.t", "stopped") in _states(pipeline)
    assert "d.t will be resnapshotted: The account may not read d.t" in " ".join(
        pipeline.command("status").stdout.split()
    )
    epochs = len(pipeline.epochs())
    _insert_elsewhere(pipeline, server, runner, 101)
    assert len(pipeline.epochs()) < epochs + 10, "a table that waits causes no epochs"

    _grant(pipeline, server)
    granted_s = time.monotonic()
    pipeline.wait_for(lambda: _states(pipeline)[-2:] == [("d.t", "copying"), ("d.t", "streaming")], runner)
    assert time.monotonic() - granted_s < GRANTED_S
    pipeline.wait_for(lambda: not _refused(pipeline), runner)
    server.execute("INSERT INTO d.t VALUES (5001, 0, 8)")
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    assert not pipeline.events("source.away")
    assert not pipeline.status()["alerts"]


def test_a_resnapshot_of_a_table_that_the_account_may_not_read_waits_for_the_grant(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """Across runs, and although only a command may resnapshot it. A grant on everything helps, too."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5, source='schema_changes = "stop"')
    runner = pipeline.start_streaming()
    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    server.execute("TRUNCATE TABLE d.t")
    pipeline.wait_for(lambda: ("d.t", "stopped") in _states(pipeline), runner)
    (stop,) = (one for one in pipeline.status()["alerts"] if one["kind"] == "table_stopped")
    assert stop["hint"].startswith(f"Grant it: GRANT SELECT ON `d`.`t` TO '{USER}'@'%';")
    assert stop["hint"].endswith("Then resnapshot it: tidemark redump SPEC --table d.t")
    assert not _refused(pipeline), "only a command resnapshots it"

    assert pipeline.command("redump", "--table", "d.t").returncode == 0
    pipeline.wait_for(lambda: _refused(pipeline), runner)
    _insert_elsewhere(pipeline, server, runner, 100)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(timeout=PATIENCE_S) == 1, "a table has stopped"

    runner = pipeline.start()
    started = lambda: len(pipeline.events("source.refused")) > 1  # noqa: E731
    pipeline.wait_for(started, runner)
    _insert_elsewhere(pipeline, server, runner, 101)
    server.execute("INSERT INTO d.t VALUES (1, 1)")
    server.execute(f"GRANT SELECT ON *.* TO '{USER}'@'%'")
    pipeline.wait_for(lambda: _states(pipeline)[-1:] == [("d.t", "streaming")], runner)
    pipeline.wait_for(lambda: not _refused(pipeline), runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    assert not pipeline.events("source.away")


def test_a_table_without_a_key_that_is_altered_meanwhile_gets_a_new_change_log(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """Nobody knows what the change did to its rows. The hint has the grant and the two commands."""
    server = private_server(flavor)
    _create(server)
    server.execute("ALTER TABLE d.t DROP PRIMARY KEY")
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()
    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    server.execute("ALTER TABLE d.t ADD COLUMN w INT")
    pipeline.wait_for(lambda: ("d.t", "stopped") in _states(pipeline), runner)
    (stop,) = (one for one in pipeline.status()["alerts"] if one["kind"] == "table_stopped")
    grant, cure = stop["hint"].removeprefix("Grant it: ").split(" Then ", 1)
    assert not _refused(pipeline), "only commands bring it back"

    server.execute(grant)
    for verb in ("remove-table SPEC --table d.t --drop", "add-table SPEC --table d.t"):
        assert f"tidemark {verb}" in cure
        done = len(pipeline.events("command.done"))
        assert pipeline.command(*verb.replace("SPEC ", "").split()).returncode == 0
        pipeline.wait_for(lambda n=done: len(pipeline.events("command.done")) > n, runner)  # type: ignore[misc]
    pipeline.wait_for(lambda: _states(pipeline)[-1:] == [("d.t", "streaming")], runner)
    pipeline.finish(runner)


def test_verify_says_that_the_account_may_not_read_a_table(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """It has not changed, though the catalog does not list it any more. Another table is verified."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    pipeline.run("caught-up")
    server.execute(f"REVOKE SELECT ON d.t FROM '{USER}'@'%'")
    verified = json.loads(pipeline.command("verify", "--json").stdout)
    results = {one["table"]: one for one in verified["tables"]}
    assert results["d.u"]["verdict"] == "verified"
    assert results["d.t"]["verdict"] == "unverifiable"
    assert results["d.t"]["why"].startswith("the account may not read it: ")


def _insert_elsewhere(pipeline: Pipeline, server: Server, runner: Runner, key: int) -> None:
    """Write to the other table, and wait until its mirror has the row."""
    server.execute(f"INSERT INTO d.u VALUES ({key}, 7)")
    pipeline.wait_for(lambda: key in lake_table(pipeline.mirror("u"))["id"].to_pylist(), runner)


def _states(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(e["table"], e["state"]) for e in pipeline.events("table.state")]


@on("mariadb")
def test_a_new_table_that_the_account_may_not_read_yet_is_captured_after_the_grant(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The catalogue hides it until then, and no statement in the binlog says that it can be seen."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5, source='new_tables = "add"\n')
    runner = pipeline.start_streaming()
    server.execute("CREATE TABLE d.fresh (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.fresh VALUES (1, 1), (2, 2)")
    server.execute("INSERT INTO d.u VALUES (100, 7)")
    pipeline.wait_for(lambda: 7 in lake_table(pipeline.mirror("u"))["v"].to_pylist(), runner)
    assert "d.fresh" not in {table["table"] for table in pipeline.status()["tables"]}
    server.execute(f"GRANT SELECT ON d.fresh TO '{USER}'@'%'")
    pipeline.wait_for(
        lambda: any((e["table"], e["state"]) == ("d.fresh", "streaming") for e in pipeline.events("table.state")),
        runner,
    )
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "fresh"), pipeline.mirror("fresh"))
