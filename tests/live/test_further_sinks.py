"""Delta tables and Parquet files from one pipeline: each equals the source, and one that fails delays itself alone."""

import json
import random
import shutil
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.ledger.record_json import state_to_json
from engine.ledger.store import Ledger
from engine.pipeline import formats
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import apply_changes, assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support.depth import depth, on
from tests.support.mounts import mounted
from tests.support.parquet import log_table, replayed

MB = 1 << 20
FILES = """
[[sinks]]
name = "files"
type = "parquet"
path = "files"
"""


def _assert_both(pipeline: Pipeline, server: Server, table: str) -> None:
    """The mirror and the files are the source."""
    root, name = pipeline.folder / "files", f"{pipeline.database}.{table}"
    source = source_table(server, pipeline.database, table)
    assert_equal(source, pipeline.mirror(table), ["id"])
    snapshot = log_table(root, name, "chunks").select(source.column_names).cast(pa.schema(list(source.schema)))
    assert_equal(source, apply_changes(snapshot, log_table(root, name, "changes"), ["id"]))


def _commits(pipeline: Pipeline) -> int:
    """The commits to the further sink."""
    return len([event for event in pipeline.events("sink.applied") if event["sink"] == "files"])


def _has_committed(pipeline: Pipeline, commits: int) -> bool:
    return _commits(pipeline) >= commits


def _sink(pipeline: Pipeline) -> dict[str, object]:
    (found,) = pipeline.status()["sinks"]
    return dict(found)


def _edit(pipeline: Pipeline, old: str, new: str) -> None:
    text = pipeline.spec.read_text()
    assert old in text
    pipeline.spec.write_text(text.replace(old, new))


@pytest.mark.soak
def test_killed_again_and_again_both_are_the_source(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """One of the two cannot be written for a while: the other one continues, and it gets what it lacks."""
    seed_table(server, database, "orders", depth(40_000, 600_000), binlog=False)
    pipeline = new_pipeline(server, database, chunk_rows=2_500, merge=1.0, more=FILES)
    chance, files = random.Random(11), pipeline.folder / "files"
    with Workload(server, database, "orders", seed=2, rate=200) as load:
        for _ in range(depth(2, 10)):
            goal = _commits(pipeline) + 1
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_committed, pipeline, goal), runner)
            time.sleep(chance.uniform(0.0, 3.0))
            runner.kill()
            runner.wait()
        kept = pipeline.folder / "kept"
        shutil.move(files, kept)
        files.write_text("in the way")
        runner = pipeline.start_streaming()
        pipeline.wait_for(lambda: _sink(pipeline)["state"] == "retrying", runner)
        done = len(pipeline.events("epoch.committed"))
        pipeline.wait_for(lambda: len(pipeline.events("epoch.committed")) > done + 3, runner)
        assert "Sink files cannot be written" in str(_sink(pipeline)["error"])
        files.unlink()
        shutil.move(kept, files)
        pipeline.wait_for(lambda: _sink(pipeline)["state"] == "publishing", runner)
        load.stop()
    pipeline.finish(runner)
    pipeline.run("caught-up")
    _assert_both(pipeline, server, "orders")


def test_a_paused_sink_waits_for_a_resume_alone(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Also across a restart. Then it gets what it lacks. One that waits for its next try begins it at once."""
    _two_rows(server, database)
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, more=FILES)
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: _sink(pipeline)["state"] == "publishing" and _commits(pipeline) > 0, runner)
    assert pipeline.command("pause", "--sink", "files").returncode == 0
    pipeline.wait_for(lambda: _sink(pipeline)["state"] == "paused", runner)
    server.execute(f"UPDATE {database}.t SET v = 9 WHERE id = 1")
    pipeline.wait_for(partial(_mirror_has, pipeline, 9), runner)
    assert _rows(pipeline.folder / "files", database) == {1: 1, 2: 2}
    pipeline.finish(runner)
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: _sink(pipeline)["state"] == "paused", runner)
    assert _rows(pipeline.folder / "files", database) == {1: 1, 2: 2}
    assert pipeline.command("resume", "--sink", "files").returncode == 0
    pipeline.wait_for(lambda: _rows(pipeline.folder / "files", database) == {1: 9, 2: 2}, runner)
    pipeline.wait_for(lambda: bool(_sink(pipeline)["position"]), runner)
    unknown = pipeline.command("pause", "--sink", "other")
    assert "The spec has no sink other." in unknown.stderr
    both = pipeline.command("pause", "--sink", "files", "--snapshot")
    assert "one of them" in both.stderr
    pipeline.finish(runner)


def test_a_disk_that_is_full_or_read_only_delays_its_sink_alone(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """The mirror gets every change meanwhile. With room again, the files get what they lack."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT, noise VARBINARY(1000))")
    server.execute(f"INSERT INTO {database}.t VALUES (0, 0, NULL)")
    with mounted(tmp_path / "files", 8 * MB) as disk:
        pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, more=FILES)
        runner = pipeline.start_streaming()
        refusals = ((disk.fill, disk.free), (disk.make_read_only, disk.make_writable))
        for number, (refuse, allow) in enumerate(refusals, 1):
            pipeline.wait_for(lambda: _sink(pipeline)["state"] == "publishing", runner)
            refuse()
            server.execute(f"INSERT INTO {database}.t VALUES ({number}, {number}, RANDOM_BYTES(1000))")
            pipeline.wait_for(lambda: _sink(pipeline)["state"] == "retrying", runner)
            assert "Sink files cannot be written" in str(_sink(pipeline)["error"])
            server.execute(f"UPDATE {database}.t SET v = {10 * number} WHERE id = 0")
            pipeline.wait_for(partial(_mirror_has, pipeline, 10 * number), runner)
            assert not pipeline.events("disk.freed")
            allow()
        pipeline.wait_for(lambda: _sink(pipeline)["state"] == "publishing", runner)
        pipeline.finish(runner)
        pipeline.run("caught-up")
        _assert_both(pipeline, server, "t")


def _mirror_has(pipeline: Pipeline, value: int) -> bool:
    return value in lake_table(pipeline.mirror("t"))["v"].to_pylist()


def _two_rows(server: Server, database: str) -> None:
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)")


def _rows(folder: Path, database: str) -> dict[int, int]:
    return {key: row["v"] for key, row in replayed(folder, f"{database}.t", "id").items()}


def test_one_joins_later_and_leaves_again(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """It begins with a copy of the mirror. No row of the source is read again."""
    _two_rows(server, database)
    server.execute(f"CREATE TABLE {database}.bare (v INT)")
    server.execute(f"INSERT INTO {database}.bare VALUES (7), (7)")
    pipeline = new_pipeline(server, database)
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.t SET v = 20 WHERE id = 2")
    pipeline.run("caught-up")
    _prune(pipeline)
    with pipeline.spec.open("a") as spec:
        spec.write(FILES)
    read = len(pipeline.events("chunk.finished"))
    server.execute(f"INSERT INTO {database}.t VALUES (3, 3)")
    pipeline.run("caught-up")
    server.execute(f"DELETE FROM {database}.t WHERE id = 1")
    pipeline.run("caught-up")
    assert _rows(pipeline.folder / "files", database) == {2: 20, 3: 3}
    assert sorted(log_table(pipeline.folder / "files", f"{database}.bare", "chunks")["v"].to_pylist()) == [7, 7]
    assert len(pipeline.events("chunk.finished")) == read
    _edit(pipeline, FILES, "")
    server.execute(f"INSERT INTO {database}.t VALUES (4, 4)")
    pipeline.run("caught-up")
    assert pipeline.status()["sinks"] == []
    assert _rows(pipeline.folder / "files", database) == {2: 20, 3: 3}, "its data stays as it was"


def _prune(pipeline: Pipeline) -> None:
    """Replace the ledger's epochs by a full state, as a long run does."""
    folder = pipeline.home / "ledger"
    state = Ledger(folder).state
    assert state is not None
    full = formats.stamped("state", state_to_json(state))
    (folder / f"state-{state.epoch:08d}.json").write_text(json.dumps(full))
    for path in folder.glob("epoch-*.json"):
        path.unlink()


@on("mariadb")
def test_a_sink_that_was_stopped_joins_again_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Too much was kept for it. The pipeline went on without it."""
    _two_rows(server, database)
    bound = "max_kept_bytes = 1\n"
    pipeline = new_pipeline(server, database, more=FILES + bound)
    (pipeline.folder / "files").write_text("in the way")
    failed = pipeline.command("run", "--until", "caught-up")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "more than sinks.max_kept_bytes (1)" in " ".join((failed.stdout + failed.stderr).split())
    assert _sink(pipeline)["state"] == "stopped"
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"), ["id"])
    assert "stopped" in pipeline.command("status").stdout
    _edit(pipeline, FILES + bound, "")
    pipeline.run("caught-up")
    (pipeline.folder / "files").rename(pipeline.folder / "away")
    with pipeline.spec.open("a") as spec:
        spec.write(FILES)
    server.execute(f"UPDATE {database}.t SET v = 10 WHERE id = 1")
    pipeline.run("caught-up")
    assert _rows(pipeline.folder / "files", database) == {1: 10, 2: 2}
