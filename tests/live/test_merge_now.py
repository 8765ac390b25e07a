"""What an operator asked for is done when it can be read.

Redumps and merges on command, however long merges are deferred.
"""

from typing import Any

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server


def test_a_redump_and_a_merge_are_done_when_they_can_be_read(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The pipeline itself merges once an hour."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2), (3, 3)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=3600.0)
    runner = pipeline.start_streaming()

    server.execute(f"UPDATE {database}.t SET v = 20 WHERE id = 2")
    wait_committed(pipeline, runner, 1)
    assert values(pipeline) == {1: 1, 2: 2, 3: 3}
    carried_out(pipeline, runner, "redump", tables=[f"{database}.t"], keys=[["1"], ["3"]])
    assert values(pipeline) == {1: 1, 2: 20, 3: 3}

    server.execute(f"INSERT INTO {database}.t VALUES (4, 4)")
    wait_committed(pipeline, runner, 3)
    assert 4 not in values(pipeline)
    carried_out(pipeline, runner, "merge", tables=[])
    assert values(pipeline) == {1: 1, 2: 20, 3: 3, 4: 4}

    server.execute(f"DELETE FROM {database}.t WHERE id = 1")
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"), ["id"])
    assert not list((pipeline.home / "inbox").glob("*.json"))


def values(pipeline: Pipeline) -> dict[int, int]:
    """The mirror."""
    return {row["id"]: row["v"] for row in lake_table(pipeline.mirror("t")).to_pylist()}


def wait_committed(pipeline: Pipeline, runner: Runner, epochs: int) -> None:
    """Wait until so many epochs had changes."""
    pipeline.wait_for(lambda: len([e for e in pipeline.events("epoch.committed") if e["changes"]]) >= epochs, runner)


def carried_out(pipeline: Pipeline, runner: Runner, verb: str, **arguments: Any) -> None:
    """Send a command, and wait until it is done."""
    identity = send_command(Directory(pipeline.home), verb, arguments=arguments)
    pipeline.wait_for(lambda: any(e["id"] == identity for e in pipeline.events("command.done")), runner)
