"""A source that loses a required setting while a pipeline runs: it is noticed, and the remedy survives a restart."""

from typing import Any

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline, Runner


@pytest.mark.soak
def test_a_source_that_leaves_row_format_is_named_until_it_is_back_for_good(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """By a statement that a client sets, and by a restart with another my.cnf.

    The alert's remedy outlives the next restart.
    """
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 1)")
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()

    server.execute("SET GLOBAL binlog_format = 'MIXED'")
    server.execute("UPDATE d.t SET v = 2")
    raised = alert(pipeline, runner, "alert.raised", 1)
    assert raised["message"] == "The source's settings changed: binlog_format is MIXED, not ROW."
    server.execute("SET GLOBAL binlog_format = 'ROW'")
    alert(pipeline, runner, "alert.cleared", 1)

    server.restart(binlog_format="MIXED")
    raised = alert(pipeline, runner, "alert.raised", 2)
    server.execute(raised["hint"])
    alert(pipeline, runner, "alert.cleared", 2)
    if flavor == "mariadb":
        assert "my.cnf, below [mysqld], so that it survives a restart: binlog_format = ROW" in raised["hint"]
    else:  # a test's command line would override it at the restart; a my.cnf does not
        kept = "SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables WHERE VARIABLE_NAME = 'binlog_format'"
        assert list(server.execute(kept)) == [("ROW",)]
    server.restart(binlog_format="ROW")
    server.execute("UPDATE d.t SET v = 3")
    pipeline.finish(runner)
    assert len(pipeline.events("alert.raised")) == 2


def alert(pipeline: Pipeline, runner: Runner, event: str, number: int) -> dict[str, Any]:
    """The event of this number, counted from 1, of the alert on settings."""
    pipeline.wait_for(lambda: len(of(pipeline, event)) >= number, runner)
    return of(pipeline, event)[number - 1]


def of(pipeline: Pipeline, event: str) -> list[dict[str, Any]]:
    """Its events of this kind."""
    return [one for one in pipeline.events(event) if one["kind"] == "source_settings"]
