"""Maintenance of a pipeline's tables while they are written to.

By schedule, by command, and by other tools beside it.
"""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_read_by_all, source_table
from tests.live.support.other_tool import OtherTool
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support.delta import rows_at

SETTINGS = """
files_retention = "2s"
changes_retention = "2s"
"""


def _maintained(pipeline: Pipeline, runner: Runner, *arguments: str) -> dict[str, Any]:
    """Send `maintain` and wait for its answer."""
    sent = json.loads(pipeline.command("maintain", "--json", *arguments).stdout)
    pipeline.wait_for(lambda: [e for e in pipeline.events("command.done") if e["id"] == sent["id"]], runner)
    (answer,) = [e["result"] for e in pipeline.events("command.done") if e["id"] == sent["id"]]
    return dict(answer)


@pytest.mark.slow
def test_maintenance_under_writes(server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path) -> None:
    """Old files go, changes expire, another tool compacts and vacuums meanwhile.

    Every reader finds the source's rows.
    """
    on_read = server.flavor == "mariadb"
    seed_table(server, database, "orders", 3000, binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=500, merge=0.3, poll=0.2, sink=SETTINGS)
    with Workload(server, database, "orders", seed=3, rate=100) as load:
        runner = pipeline.start_streaming()
        for turn in range(4):
            time.sleep(1.0)
            # Alone in the last turns, so that Tidemark finds something to do.
            with OtherTool(pipeline, "orders", tmp_path / f"kept{turn}", 0.1) if turn < 2 else nullcontext():
                answer = _maintained(pipeline, runner)
                time.sleep(0.5)
            assert answer["failed"] == []
        shown = json.loads(pipeline.command("maintain", "--dry-run", "--json").stdout)["tables"]
        load.stop()
    time.sleep(2.5)
    assert _maintained(pipeline, runner, "--table", f"{database}.orders")["failed"] == []
    pipeline.finish(runner)
    assert_read_by_all(source_table(server, database, "orders"), pipeline.mirror("orders"), pipeline.changes("orders"))
    steps = {event["step"] for event in pipeline.events("sink.maintained")}
    assert {"expire", "vacuum"} <= steps
    assert ("optimize" in steps) == on_read
    assert [f"{event['message']} {event['detail']}" for event in pipeline.events("error")] == []
    (one,) = shown
    assert one["table"] == f"{database}.orders"
    assert one["sizes"]["on_read"] == on_read
    first = rows_at(pipeline.changes("orders")).num_rows
    assert first < sum(event["changes"] for event in pipeline.events("epoch.committed"))
    named = {uri.rpartition("/")[2] for uri in DeltaTable(str(pipeline.mirror("orders"))).file_uris()}
    assert len(list(pipeline.mirror("orders").glob("*.parquet"))) <= len(named) + 12


def test_a_command_for_a_table_that_is_not_there_is_refused(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """By the command line, before it is sent; and a pipeline that never ran has nothing to maintain."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database)
    assert pipeline.command("maintain").returncode == 2
    pipeline.run("caught-up")
    refused = pipeline.command("maintain", "--table", "x.y")
    assert (refused.returncode, "no table x.y" in refused.stderr) == (2, True)
    assert "nothing" in pipeline.command("maintain", "--dry-run").stdout
