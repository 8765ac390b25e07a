"""The account may no longer read one table while it is copied or redumped, and gets the privilege back."""

from typing import Any

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline
from tests.servers import USER, Server

ROWS = 2000


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


def _states(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(e["table"], e["state"]) for e in pipeline.events("table.state")]
