"""The change log as Parquet files: read as its documentation says, it is the source, whatever happens to the runner."""

import random
import shutil
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import apply_changes, assert_equal, log_faults, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support.depth import depth, on
from tests.support.parquet import files_of, generation_of, log_table, replayed


def _lake(pipeline: Pipeline) -> Path:
    return pipeline.folder / "lake"


def _has_applied(pipeline: Pipeline, commits: int) -> bool:
    return len(pipeline.events("sink.applied")) >= commits


def _assert_right(pipeline: Pipeline, server: Server, table: str) -> None:
    """Snapshot plus change log is the source, each change matches its row, and manifests name what is there."""
    root, name = _lake(pipeline), f"{pipeline.database}.{table}"
    source = source_table(server, pipeline.database, table)
    columns = [*source.column_names]
    snapshot, changes = log_table(root, name, "chunks").select(columns), log_table(root, name, "changes")
    assert log_faults(snapshot, changes, ["id"]) == []
    assert_equal(source, apply_changes(snapshot.cast(pa.schema(list(source.schema))), changes, ["id"]))
    named = {file["path"] for file in files_of(root, name)}
    there = {path.relative_to(root).as_posix() for path in (root / pipeline.database / table).rglob("*.parquet")}
    assert there == named


@pytest.mark.soak
def test_a_table_under_load_is_its_change_log(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Copied and followed by a runner that is killed again and again; then resnapshotted."""
    seed_table(server, database, "orders", depth(40_000, 600_000), binlog=False)
    server.execute(f"CREATE TABLE {database}.bare (v INT)")
    server.execute(f"INSERT INTO {database}.bare VALUES (1), (1), (2)")
    pipeline = new_pipeline(server, database, kind="parquet", chunk_rows=2_500, merge=1.0)
    chance = random.Random(7)
    with Workload(server, database, "orders", seed=2, rate=200) as load:
        for _ in range(depth(2, 10)):
            goal = len(pipeline.events("sink.applied")) + 1
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
            time.sleep(chance.uniform(0.0, 3.0))
            runner.kill()
            runner.wait()
        load.stop()
    pipeline.run("caught-up")
    _assert_right(pipeline, server, "orders")
    bare = log_table(_lake(pipeline), f"{database}.bare", "chunks")
    assert sorted(bare["v"].to_pylist()) == [1, 1, 2]

    server.execute(f"DELETE FROM {database}.orders WHERE id % 3 = 0")
    result = pipeline.command("redump", "--table", f"{database}.orders", "--json")
    assert result.returncode == 0, result.stderr
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.orders SET quantity = quantity + 1 WHERE id % 5 = 0")
    pipeline.run("caught-up")
    assert generation_of(_lake(pipeline), f"{database}.orders") == 1
    _assert_right(pipeline, server, "orders")


@on("mariadb")
def test_what_needs_a_mirror_says_so(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Before anything is done. The plan says it too, and verification that there is nothing to verify."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, kind="parquet")
    plan = pipeline.command("plan")
    assert "the change log alone, no mirrors" in plan.stdout, plan.stdout
    pipeline.run("caught-up")
    for verb, *arguments in (
        ("audit",),
        ("maintain",),
        ("merge",),
        ("backup", str(pipeline.folder / "b.zip")),
        ("read", f"{database}.t"),
    ):
        refused = pipeline.command(verb, *arguments)
        assert refused.returncode == 2, (verb, refused.stdout, refused.stderr)
        assert "needs a destination with mirrors" in " ".join((refused.stdout + refused.stderr).split()), verb
    verified = pipeline.command("verify", "--json")
    assert '"unverifiable"' in verified.stdout, verified.stdout + verified.stderr
    assert "its destination keeps no mirrors" in verified.stdout
    assert pipeline.status()["tables"][0]["state"] == "streaming"


@on("mysql")
def test_a_folder_that_is_gone_is_restored_or_resnapshotted_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Nothing begins again in silence."""
    for table in ("a", "b"):
        server.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO {database}.{table} VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, kind="parquet")
    pipeline.run("caught-up")
    kept = pipeline.folder / "kept"
    for table in ("a", "b"):
        shutil.move(_lake(pipeline) / database / table, kept / table)
    refused = pipeline.command("run", "--until", "caught-up")
    assert refused.returncode == 7, refused.stdout + refused.stderr
    assert "is gone" in refused.stdout + refused.stderr
    shutil.move(kept / "a", _lake(pipeline) / database / "a")
    assert pipeline.command("redump", "--table", f"{database}.b").returncode == 0
    server.execute(f"UPDATE {database}.a SET v = 10 WHERE id = 1")
    server.execute(f"UPDATE {database}.b SET v = 20 WHERE id = 2")
    pipeline.run("caught-up")
    for table, expected in (("a", {1: 10, 2: 2}), ("b", {1: 1, 2: 20})):
        rows = replayed(_lake(pipeline), f"{database}.{table}", "id")
        assert {key: row["v"] for key, row in rows.items()} == expected
