"""Parquet files and Delta tables, in buckets and in folders: each equals the source, whatever the store does."""

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.explore import read
from engine.spec.settings import load
from engine.spec.sink_settings import Sink
from tests.live.conftest import PipelineFactory
from tests.live.support.bucket_lake import bad_weather
from tests.live.support.compare import apply_changes, assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS
from tests.support.parquet import log_table
from tests.support.store_faults import StoreFaults

OWN = 'master = "local[2]"'
"""A session with the test's own environment, which has the credentials."""


def _place(name: str, proxy: StoreFaults, *, bucket: bool) -> str:
    """The lines of a sink's place."""
    if not bucket:
        return f'path = "{name}"'
    return f'path = "s3://lake/{proxy.port}/{name}"\nendpoint = "http://127.0.0.1:{proxy.port}"\nregion = "us-east-1"'


def _assert_files(pipeline: Pipeline, server: Server, sink: Sink, copy: Path) -> None:
    """The Parquet files are the source. copy: where a bucket's are copied to be read."""
    for entry in sink.folder.below():
        (copy / entry.name).parent.mkdir(parents=True, exist_ok=True)
        (copy / entry.name).write_bytes(sink.folder.read(entry.name))
    name, source = f"{pipeline.database}.orders", source_table(server, pipeline.database, "orders")
    snapshot = log_table(copy, name, "chunks").select(source.column_names).cast(pa.schema(list(source.schema)))
    assert_equal(source, apply_changes(snapshot, log_table(copy, name, "changes"), ["id"]))


@pytest.mark.soak
def test_plain_files_are_in_a_bucket(
    server: Server, database: str, new_pipeline: PipelineFactory, faults: StoreFaults, tmp_path: Path
) -> None:
    """Copied and followed by a runner that is killed, while requests are refused and answers are lost."""
    seed_table(server, database, "orders", 3_000)
    pipeline = new_pipeline(
        server,
        database,
        kind="parquet",
        chunk_rows=500,
        merge=0.5,
        spark=OWN,
        environment=CREDENTIALS,
    )
    text = pipeline.spec.read_text()
    pipeline.spec.write_text(text.replace('path = "lake"', _place("plain", faults, bucket=True)))
    checked = pipeline.command("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    faults.fault = bad_weather(3)
    runner = pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=200) as load_:
        pipeline.wait_for(lambda: load_.committed > 200, runner)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 2, runner)
    pipeline.finish(runner)
    faults.fault = lambda _method, _path: ""
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    _assert_files(pipeline, server, load(pipeline.spec).sink, tmp_path / "copy")


@pytest.mark.soak
@pytest.mark.parametrize("delta", [True, False], ids=["delta-in-bucket", "parquet-in-bucket"])
def test_one_sink_is_in_a_bucket(
    server: Server, database: str, new_pipeline: PipelineFactory, faults: StoreFaults, tmp_path: Path, delta: bool
) -> None:
    """The other is in a folder. The store goes away meanwhile: what is in the folder continues if it can."""
    seed_table(server, database, "orders", 2_000)
    further = f'[[sinks]]\nname = "files"\ntype = "parquet"\n{_place("files", faults, bucket=not delta)}\n'
    pipeline = new_pipeline(
        server, database, chunk_rows=500, poll=0.2, merge=0.5, spark=OWN, environment=CREDENTIALS, more=further
    )
    if delta:
        text = pipeline.spec.read_text()
        pipeline.spec.write_text(text.replace('path = "lake"', _place("lake", faults, bucket=True)))
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: _commits(pipeline, "files"), runner)
    faults.fault = lambda _method, _path: "dropped"
    server.execute(f"UPDATE {database}.orders SET quantity = quantity + 1 WHERE id % 3 = 0")
    if delta:
        pipeline.wait_for(lambda: pipeline.events("store.away"), runner)
    else:
        pipeline.wait_for(lambda: _sink(pipeline)["state"] == "retrying", runner)
        mirrored = _commits(pipeline, "delta")
        server.execute(f"DELETE FROM {database}.orders WHERE id % 5 = 0")
        pipeline.wait_for(lambda: _commits(pipeline, "delta") > mirrored, runner)
        assert not pipeline.events("store.away"), "the first destination is not there"
    faults.fault = lambda _method, _path: ""
    if delta:
        pipeline.wait_for(lambda: pipeline.events("store.back"), runner)
    pipeline.wait_for(lambda: _sink(pipeline)["state"] == "publishing", runner)
    pipeline.stop(runner)
    pipeline.run("caught-up")
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    spec = load(pipeline.spec)
    assert_equal(source_table(server, database, "orders"), read(pipeline.spec, f"{database}.orders"))
    _assert_files(pipeline, server, spec.sinks[0], tmp_path / "copy")


def _commits(pipeline: Pipeline, sink: str) -> int:
    """The commits to a sink; the first one is "delta"."""
    return len([event for event in pipeline.events("sink.applied") if event["sink"] == sink])


def _sink(pipeline: Pipeline) -> dict[str, object]:
    (found,) = pipeline.status()["sinks"]
    return dict(found)
