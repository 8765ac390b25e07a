"""Changes for a function of somebody, and for one of Spark's writers, beside Delta tables and alone."""

import json
import random
from functools import partial
from pathlib import Path

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support import recording_writer
from tests.support.depth import depth, on
from tests.support.pages import ROOT, blocks

PAGE = ROOT / "docs" / "destinations.md"
SINKS = """
[[sinks]]
name = "events"
type = "python"
path = "sinks/events"
[sinks.writer]
function = "events.write"

[[sinks]]
name = "archive"
type = "spark"
path = "sinks/archive"
[sinks.writer]
format = "json"
options = {{ path = "{folder}/archive/{{database}}/{{table}}" }}
"""


def _module(folder: Path) -> None:
    """The users' module, beside the spec."""
    (folder / "events.py").write_text(Path(recording_writer.__file__).read_text())


def _source(server: Server, database: str) -> dict[int, int]:
    rows = server.execute(f"SELECT id, quantity FROM {database}.orders")
    return {int(key): int(quantity) for key, quantity in rows}


def _archived(folder: Path, database: str) -> dict[int, int]:
    """The rows that the JSON files leave."""
    lines = [
        line
        for file in (folder / "archive" / database / "orders").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    rows = [json.loads(line) for line in lines]
    newest = max(row["_tm_copy"] for row in rows)
    left = dict[int, int]()
    for row in sorted((row for row in rows if row["_tm_copy"] == newest), key=lambda one: one["_tm_seq"]):
        if row["_tm_kind"].startswith("-"):
            left.pop(row["id"], None)
        else:
            left[row["id"]] = row["quantity"]
    return left


def _has_written(pipeline: Pipeline, commits: int) -> bool:
    return len([one for one in pipeline.events("sink.applied") if one["sink"] == "archive"]) >= commits


def _has_reached(load: Workload, committed: int) -> bool:
    return load.committed > committed


@pytest.mark.soak
@on("mysql")
def test_writers_get_every_change_at_least_once(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """From a runner that is killed again and again under load; through a resnapshot."""
    seed_table(server, database, "orders", depth(2_000, 100_000), binlog=False)
    _module(tmp_path)
    written = tmp_path / "written.jsonl"
    pipeline = new_pipeline(
        server,
        database,
        chunk_rows=500,
        merge=1.0,
        more=SINKS.format(folder=tmp_path),
        environment={recording_writer.FILE: str(written)},
        folder=tmp_path,
    )
    chance = random.Random(5)
    with Workload(server, database, "orders", seed=3, rate=50) as load:
        for _ in range(depth(2, 10)):
            goal = len([one for one in pipeline.events("sink.applied") if one["sink"] == "archive"]) + 2
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_written, pipeline, goal), runner)
            least = load.committed + chance.randrange(100)
            pipeline.wait_for(partial(_has_reached, load, least), runner)
            runner.kill()
            runner.wait()
        load.stop()
    pipeline.run("caught-up")
    source = _source(server, database)
    assert {key: row["quantity"] for key, row in recording_writer.replayed_rows(written).items()} == source
    assert _archived(tmp_path, database) == source


@pytest.mark.soak
@on("mariadb")
def test_a_function_that_fails_delays_its_sink_alone(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """`check` names one that is not there. One that raises is called again until it works."""
    seed_table(server, database, "orders", 20, binlog=False)
    in_no_hour = "2024-03-31 02:30:00"  # summer time skips it
    server.execute(f"UPDATE {database}.orders SET created_at = '{in_no_hour}' WHERE id = 7")
    sink = SINKS.format(folder=tmp_path).split("[[sinks]]")[1]
    written, broken = tmp_path / "written.jsonl", tmp_path / "missing" / "written.jsonl"
    pipeline = new_pipeline(
        server,
        database,
        merge=0.5,
        more=f"[[sinks]]{sink}",
        environment={recording_writer.FILE: str(broken), "TZ": "Europe/Berlin"},
        folder=tmp_path,
    )
    check = pipeline.command("check")
    assert check.returncode != 0
    assert "There is no function events.write" in check.stdout
    _module(tmp_path)
    assert pipeline.command("check").returncode == 0
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: "has failed in epoch" in str(pipeline.status()["sinks"][0]["error"]), runner)
    broken.parent.mkdir()
    assert pipeline.command("resume", "--sink", "events").returncode == 0
    pipeline.wait_for(lambda: len(recording_writer.replayed_rows(broken)) == 20, runner)
    assert not written.exists()
    assert recording_writer.replayed_rows(broken)[7]["created_at"] == in_no_hour
    pipeline.finish(runner)


@on("mysql")
def test_the_function_of_the_docs_works(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """As it stands there, with a folder of the test."""
    seed_table(server, database, "orders", 20, binlog=False)
    (code,) = [one.text for one in blocks(PAGE) if one.language == "python" and "def write(" in one.text]
    assert "/data/events" in code
    (tmp_path / "events.py").write_text(code.replace("/data/events", f"{tmp_path}/out"))
    sink = SINKS.format(folder=tmp_path).split("[[sinks]]")[1]
    pipeline = new_pipeline(server, database, merge=0.5, more=f"[[sinks]]{sink}", folder=tmp_path)
    pipeline.run("caught-up")
    files = (tmp_path / "out" / f"{database}.orders").glob("*.json")
    assert len([line for file in files for line in file.read_text().splitlines()]) == 20
