"""Other programs that change rows of mirrors are noticed, until the rows are verified or resnapshotted."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import depth, on
from tests.support.readers import FRAMES, SPARK

QUIET = '[verify]\nperiod = "off"\n'


def copied(server: Server, database: str, new_pipeline: PipelineFactory, *tables: str, more: str = QUIET) -> Pipeline:
    """A pipeline that has copied and verified tables of twenty rows, without a runner."""
    for name in tables:
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v INT)")
        rows = ", ".join(f"({n}, {n})" for n in range(20))
        server.execute(f"INSERT INTO `{database}`.{name} VALUES {rows}")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, more=more)
    pipeline.run("caught-up")
    succeed(pipeline, "verify")
    return pipeline


def change(pipeline: Pipeline, name: str, key: int) -> int:
    """Another program changes a row of a mirror. Returns the version."""
    delta = DeltaTable(str(pipeline.mirror(name)))
    delta.update(updates={"v": "1000"}, predicate=f"id = {key}")
    return delta.version()


def delete(pipeline: Pipeline, name: str, key: int) -> int:
    """Another program deletes a row of a mirror. Returns the version."""
    delta = DeltaTable(str(pipeline.mirror(name)))
    delta.delete(f"id = {key}")
    return delta.version()


def succeed(pipeline: Pipeline, *arguments: str) -> None:
    """Run a command that must succeed."""
    result = pipeline.command(*arguments)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


def written(pipeline: Pipeline, name: str) -> list[dict[str, Any]]:
    """The events of a mirror."""
    return [event for event in pipeline.events("mirror.written") if event["table"] == f"{pipeline.database}.{name}"]


def alerts(pipeline: Pipeline) -> list[tuple[str, str]]:
    """The journal's alerts of this kind: raised or cleared, and the table."""
    found = pipeline.events("alert.raised", "alert.cleared")
    return [
        (one["event"].removeprefix("alert."), one["table"].partition(".")[2])
        for one in found
        if one["kind"] == "mirror_written"
    ]


def standing(pipeline: Pipeline) -> dict[str, float]:
    """The active alerts in `status`, and their values."""
    found = pipeline.status()["alerts"]
    return {one["table"].partition(".")[2]: one["value"] for one in found if one["kind"] == "mirror_written"}


def states(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """The verification of each table in `status`: state and reason."""
    tables = pipeline.status()["tables"]
    return {
        one["table"].partition(".")[2]: (one["verification"]["state"], one["verification"]["why"]) for one in tables
    }


def versions_compared(pipeline: Pipeline) -> list[int]:
    """The versions at which mirrors were compared, in the order of the comparisons."""
    return [one["summary"]["version"] for one in pipeline.events("table.verified")]


def test_a_mirror_that_another_program_changes_is_compared_at_once(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The verifier rests for hours after a comparison, because it may use so little of the time."""
    pipeline = copied(server, database, new_pipeline, "t", "u", more="[verify]\nshare = 0.00001\n")
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: versions_compared(pipeline), runner)  # the rest begins
    version = change(pipeline, "t", 5)
    server.execute(f"UPDATE `{database}`.t SET v = 7 WHERE id = 19")

    def diverged() -> bool:
        return any(one["differences"] for one in pipeline.events("table.verified"))

    pipeline.wait_for(diverged, runner)
    assert versions_compared(pipeline)[-1] >= version
    assert states(pipeline)["t"][0] == "diverged"
    pipeline.stop(runner)


@pytest.mark.soak
def test_a_mirror_that_another_program_changes_is_noticed_until_it_is_verified(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """One that was changed while no runner was alive, and one that is merged; once each, also if the runner is killed.

    What Tidemark commits, and what changes no row, is not reported. A repair or a resnapshot clears the alert.
    """
    pipeline = copied(server, database, new_pipeline, "merged", "away", "copied", "optimized")
    assert set(states(pipeline).values()) == {("verified", "")}
    versions = {name: delete(pipeline, name, 3) for name in ("away", "copied")}
    runner = pipeline.start_streaming(killed=True)
    pipeline.wait_for(lambda: len(alerts(pipeline)) == 2, runner, 60)

    optimized = DeltaTable(str(pipeline.mirror("optimized")))
    optimized.optimize.compact()
    optimized.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    versions["merged"] = change(pipeline, "merged", 5)
    for name in ("merged", "optimized"):
        server.execute(f"UPDATE `{database}`.{name} SET v = 7 WHERE id = 19")
    pipeline.wait_for(lambda: len(alerts(pipeline)) == 3, runner, 30)
    for name, version in versions.items():
        (event,) = written(pipeline, name)
        (commit,) = event["newest"]
        operation = "UPDATE" if name == "merged" else "DELETE"
        assert (commit["version"], commit["operation"], event["commits"]) == (version, operation, 1)
        assert commit["author"].startswith("delta-rs")
    stale = ("stale", "another program changed its mirror")
    expected = dict.fromkeys(versions, stale) | {"optimized": ("verified", "")}
    pipeline.wait_for(lambda: states(pipeline) == expected, runner, 30)  # saved after the alerts

    runner.kill()
    runner.wait()
    runner = pipeline.start_streaming()
    succeed(pipeline, "verify", "--table", f"{database}.merged", "--level", "counts")  # proves nothing
    succeed(pipeline, "verify", "--table", f"{database}.away", "--repair")
    pipeline.wait_for(lambda: ("cleared", "away") in alerts(pipeline), runner, 60)
    server.execute(f"TRUNCATE TABLE `{database}`.copied")
    server.execute(f"INSERT INTO `{database}`.copied VALUES (1, 1)")
    pipeline.wait_for(lambda: ("cleared", "copied") in alerts(pipeline), runner, 60)
    pipeline.finish(runner)
    assert standing(pipeline) == {"merged": 1.0}
    succeed(pipeline, "verify", "--repair")
    assert set(states(pipeline).values()) == {("verified", "")}, "no runner is needed for that"
    raised = [("raised", name) for name in versions]
    assert sorted(alerts(pipeline)) == sorted([("cleared", name) for name in ("away", "copied", "merged")] + raised)
    assert {name: written(pipeline, name)[-1]["cleared_by"] for name in ("away", "copied")} == {
        "away": "verification",
        "copied": "resnapshot",
    }
    for name in versions:
        assert_equal(source_table(server, database, name), pipeline.mirror(name), ["id"])
    assert not [event for event in pipeline.events("error") if event.get("helper") == "mirrors"]


def test_such_a_mirror_does_not_wait_for_its_turn(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """The runner, which has just verified all rows and rests for days, compares them again."""
    pipeline = copied(server, database, new_pipeline, "changed", more="")
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: versions_compared(pipeline), runner)
    version = change(pipeline, "changed", 5)
    server.execute(f"UPDATE `{database}`.changed SET v = 7 WHERE id = 19")  # a mirror that is merged is looked at soon
    pipeline.wait_for(lambda: versions_compared(pipeline)[-1] >= version, runner)
    pipeline.finish(runner)
    assert states(pipeline) == {"changed": ("diverged", "")}


def with_deltalake(folder: Path) -> None:
    """Like the writers of `tests/support/foreign_writers.py`."""
    delta = DeltaTable(str(folder))
    delta.update(updates={"v": "1000"}, predicate="id = 'key 017'")
    delta.merge(
        pa.table({"id": ["key 900"], "v": pa.array([1], pa.int32()), "b": [b"y"]}), "s.id = t.id", "s", "t"
    ).when_not_matched_insert_all().execute()


WRITERS: dict[str, Callable[[Path], None]] = {
    "deltalake": with_deltalake,
    "polars": partial(FRAMES.write, "polars"),
    "spark": partial(SPARK.write, "spark"),
}


@on("mariadb")
@pytest.mark.parametrize("writer", depth(["deltalake", "polars"], list(WRITERS)))
def test_rows_that_other_programs_have_written_are_compared_and_repaired(
    server: Server, database: str, new_pipeline: PipelineFactory, writer: str
) -> None:
    """They write texts in other types of Arrow's, for which Arrow has no comparison."""
    server.execute(
        f"CREATE TABLE `{database}`.named (id VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, v INT, "
        "b BLOB)"
    )
    rows = ", ".join(f"('key {n:03}', {n}, 'x')" for n in range(40))
    server.execute(f"INSERT INTO `{database}`.named VALUES {rows}")
    pipeline = new_pipeline(server, database, chunk_rows=10, poll=0.2, merge=0.5, more=QUIET)
    pipeline.run("caught-up")
    WRITERS[writer](pipeline.mirror("named"))
    result = pipeline.command("verify", "--json")
    (found,) = json.loads(result.stdout)["tables"]
    assert (found["verdict"], found["differences_total"]) == ("diverged", 2), found
    assert {(one["kind"], *one["key"]) for one in found["differences"]} == {
        ("different", "key 017"),
        ("extra", "key 900"),
    }
    succeed(pipeline, "verify", "--repair")
    assert_equal(source_table(server, database, "named"), pipeline.mirror("named"), ["id"])
