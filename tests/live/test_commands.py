"""Commands to a runner that is killed while it executes them: the next runner answers each, and none is half done."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server

ROWS = 500


@pytest.mark.soak
def test_a_killed_runner_leaves_no_command_unanswered(
    server_with: Callable[..., Server], new_database: Callable[..., str], new_pipeline: PipelineFactory
) -> None:
    """Commands for the killed runner alone are refused with a reason; commands that change the pipeline are done.

    Commands do not depend on the flavor, so one server is enough.
    """
    server = server_with("mariadb")
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    with closing(server.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(n,) for n in range(ROWS)])
    pipeline = new_pipeline(server, database, chunk_rows=100)
    home, table = Directory(pipeline.home), f"{database}.t"
    first = send_command(home, "pause", arguments={"snapshot": True})  # waits for the run
    with closing(server.connect(database=database)) as lock, lock.cursor() as cursor:
        runner = _running(pipeline, 1)
        cursor.execute("LOCK TABLES t WRITE")  # a chunk that is being read stays so
        _begin_to_read(pipeline, runner, send_command(home, "resume", arguments={"snapshot": True}))
        pipeline.wait_for(lambda: _reading(pipeline).get("seconds", 0) > 1, runner)
        assert _reading(pipeline)["chunks"] == [0]
        paused = send_command(home, "pause")
        pipeline.wait_for(lambda: _answers(pipeline).get(paused) == ["accepted"], runner)
        lost = [send_command(home, "resume")]
        kept = [send_command(home, "throttle", arguments={"max_rows_per_s": 7})]
        kept += [send_command(home, verb, arguments={"tables": [table]}) for verb in ("resume", "pause")]
        _kill(runner)

        runner = _running(pipeline, 2)
        pipeline.wait_for(lambda: _answered(pipeline, paused, *lost, *kept), runner)
        controls = pipeline.status()["controls"]
        assert (controls["throttle"], controls["tables"]) == ({"max_rows_per_s": 7}, [table]), "in the order of sending"
        _begin_to_read(pipeline, runner, send_command(home, "resume", arguments={"tables": [table]}))
        stopped = send_command(home, "stop")
        pipeline.wait_for(lambda: _answers(pipeline).get(stopped) == ["accepted"], runner)
        kept.append(send_command(home, "throttle", arguments={"reset": True}))
        _kill(runner)
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    answers = _answers(pipeline)
    assert answers[paused] == answers[stopped] == ["accepted", "refused"]
    assert [answers[identity] for identity in lost] == [["refused"]]
    assert all(answers[identity][-1] == "done" for identity in (first, *kept)), answers
    refusals = {e["id"]: e["message"] for e in pipeline.events("command.refused")}
    assert all("before this run began" in message for message in refusals.values())
    assert not list(home.inbox.glob("*.json"))
    assert pipeline.status()["controls"] == {"throttle": {}, "snapshot": False, "tables": []}


def _running(pipeline: Pipeline, nth: int) -> Runner:
    runner = pipeline.start(killed=True)
    pipeline.wait_for(lambda: [e["state"] for e in pipeline.events("run.state")].count("running") == nth, runner)
    return runner


def _begin_to_read(pipeline: Pipeline, runner: Runner, command: str) -> None:
    """Wait until the command is done and a chunk is being read."""
    assigned = len(pipeline.events("chunk.assigned"))
    pipeline.wait_for(lambda: "done" in _answers(pipeline).get(command, []), runner)
    pipeline.wait_for(lambda: len(pipeline.events("chunk.assigned")) > assigned, runner)


def _kill(runner: Runner) -> None:
    runner.kill()
    runner.wait()


def _reading(pipeline: Pipeline) -> dict[str, Any]:
    (table,) = pipeline.status()["tables"]
    return dict(table["reading"] or {})


def _answered(pipeline: Pipeline, *commands: str) -> bool:
    return all(set(_answers(pipeline).get(command, [])) & {"done", "refused"} for command in commands)


def _answers(pipeline: Pipeline) -> dict[str, list[str]]:
    """The answers to each command, in order."""
    answers: dict[str, list[str]] = {}
    for event in pipeline.events("command.accepted", "command.done", "command.refused"):
        answers.setdefault(event["id"], []).append(event["event"].removeprefix("command."))
    return answers
