"""A lake in a bucket: copied, streamed, merged, killed, verified and read, while the store has bad weather."""

import json
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.explore import read
from engine.spec.settings import load
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS, BucketServer, bucket_server
from tests.support.delta import rows_at
from tests.support.store_faults import Fault, StoreFaults, store_faults

ROWS = 4_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketServer]:
    """The store of a test."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with bucket_server(tmp_path / "store") as running:
        yield running


@pytest.fixture
def faults(store: BucketServer) -> Iterator[StoreFaults]:
    """A proxy before the store."""
    with store_faults(store.port) as proxy:
        yield proxy


def in_bucket(pipeline: Pipeline, proxy: StoreFaults) -> None:
    """Put the pipeline's lake into the bucket, reached through a proxy."""
    place = f'path = "s3://lake/some/lake"\nendpoint = "http://127.0.0.1:{proxy.port}"\nregion = "us-east-1"'
    pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', place))


def bad_weather(seed: int) -> Callable[[str, str], Fault]:
    """One request in thirty is refused; one put in ten loses its answer."""
    dice = random.Random(seed)

    def weather(method: str, _path: str) -> Fault:
        found = dice.random()
        return "503" if found < 0.03 else "lost" if found < 0.13 and method == "PUT" else ""

    return weather


def test_a_lake_is_in_a_bucket(
    server: Server, database: str, new_pipeline: PipelineFactory, store: BucketServer, faults: StoreFaults
) -> None:
    """At the end it equals the source, whatever happened to the runner and to the store."""
    seed_table(server, database, "orders", ROWS)
    pipeline = new_pipeline(
        server, database, chunk_rows=500, merge=1.0, spark='master = "local[2]"', environment=CREDENTIALS
    )
    in_bucket(pipeline, faults)
    checked = pipeline.command("check", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    faults.fault = bad_weather(1)
    runner = pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=200) as load_:
        pipeline.wait_for(lambda: load_.committed > 300, runner)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        runner = pipeline.start(killed=True)
        pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 2, runner)
        faults.fault = lambda _method, _path: "503"
        pipeline.wait_for(lambda: "away" in (_waits(pipeline) or ""), runner)
        (said, *_) = [event for event in pipeline.events("error") if event["error"] == "DiskFullError"]
        assert said["message"].startswith("The store of the destination does not answer")
        faults.fault = bad_weather(2)
        pipeline.wait_for(lambda: pipeline.events("disk.freed"), runner)
    pipeline.finish(runner)
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    assert {"503", "lost"} <= faults.met.keys()
    faults.fault = lambda _method, _path: ""

    expected = source_table(server, database, "orders")
    spec = load(pipeline.spec)
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))
    rows = rows_at(spec.sink.folder / database / "orders")
    assert rows.num_rows == expected.num_rows
    verified = pipeline.command("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert [table["verdict"] for table in json.loads(verified.stdout)["tables"]] == ["verified"]
    for verb in ("maintain", "audit"):
        done = pipeline.command(verb)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))
    assert not (pipeline.folder / "s3:").exists()


def _waits(pipeline: Pipeline) -> str | None:
    found: str | None = json.loads((pipeline.home / "runner.json").read_text()).get("disk_full")
    return found
