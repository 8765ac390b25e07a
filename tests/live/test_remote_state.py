"""A pipeline whose state is in a bucket: hosts that share nothing but the bucket and the source run it in turn."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.explore import read
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import ROOT, Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.support.depth import on
from tests.support.patience import PATIENCE_S
from tests.support.store_faults import Fault, StoreFaults

STATE = "s3://lake/{}/state"


@dataclass(frozen=True)
class Host:
    """A host: a folder that no other one uses, with the spec in it."""

    pipeline: Pipeline
    url: str
    environment: Mapping[str, str]

    def watch(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command by the state's URL: this host has no spec."""
        return subprocess.run(
            [sys.executable, "-m", "engine", verb, self.url, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        """`status --json` by the URL."""
        done = self.watch("status", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


HostFactory = Callable[..., Host]


@pytest.fixture
def new_host(
    server: Server, database: str, tmp_path: Path, new_pipeline: PipelineFactory, bucket: BucketServer
) -> HostFactory:
    """``new_host("a")``: a host of the pipeline; with a port, that of the store as this host reaches it."""
    if not bucket.replaces:
        pytest.skip("the server replaces whatever the condition says: Go is missing, which builds the right one")
    url = STATE.format(database)

    def factory(name: str, port: int = bucket.port) -> Host:
        folder = tmp_path / name
        folder.mkdir()
        environment = {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "TIDEMARK_HOME": str(folder / "home"),
        }
        pipeline = new_pipeline(
            server,
            database,
            chunk_rows=500,
            merge=1.0,
            spark='master = "local[2]"',
            environment=environment,
            folder=folder,
        )
        text = pipeline.spec.read_text().replace('path = "lake"', f'path = "s3://lake/{database}/lake"')
        pipeline.spec.write_text(f'state = "{url}"\n{text}')
        pipeline.home = folder / "shop" / "runner"
        return Host(pipeline, url, pipeline.environment)

    return factory


def connected(host: Host, runner: Runner) -> bool:
    """Whether a runner has begun to read, by the journal of its host."""
    own = {one["run"] for one in host.pipeline.events("run.started") if one["pid"] == runner.pid}
    return any(one["run"] in own for one in host.pipeline.events("run.connected"))


@pytest.mark.soak
@on("mysql")
def test_another_host_takes_over(
    server: Server,
    database: str,
    new_host: HostFactory,
    monkeypatch: pytest.MonkeyPatch,
    bucket: BucketServer,
) -> None:
    """Of a killed runner at once, of one that stands still when its lease ends, which then ends by itself."""
    seed_table(server, database, "orders", 2_000)
    a, b, c = new_host("a"), new_host("b"), new_host("c")
    first = a.pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=100) as load_:
        a.pipeline.wait_for(lambda: load_.committed > 100, first)
        second = b.pipeline.start("--standby", killed=True)
        a.pipeline.wait_for(lambda: "renews its lease" in b.pipeline.output, second)
        assert c.status()["state"] == "running"
        first.kill()
        first.wait()
        killed_s = time.monotonic()
        b.pipeline.wait_for(lambda: connected(b, second), second)
        print(f"taken over from a killed runner after {time.monotonic() - killed_s:.1f} s")
        third = a.pipeline.start("--standby", killed=True)
        before = load_.committed
        b.pipeline.wait_for(lambda: load_.committed > before + 200, second)
        second.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        a.pipeline.wait_for(lambda: connected(a, third), third)
        print(f"taken over from a runner that stands still after {time.monotonic() - stopped_s:.1f} s")
        second.send_signal(signal.SIGCONT)
        assert second.wait(PATIENCE_S) == 5, b.pipeline.output[-3000:]
    asked = c.watch("redump", "--table", f"{database}.orders", "--json")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    identity = json.loads(asked.stdout)["id"]
    a.pipeline.wait_for(lambda: any(one.get("id") == identity for one in a.pipeline.events("command.done")), third)
    asked = c.watch("stop")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert third.wait(PATIENCE_S) == 0, a.pipeline.output[-3000:]
    assert c.status()["state"] == "stopped"
    for name, value in a.environment.items():
        monkeypatch.setenv(name, value)
    done = b.pipeline.command("run", "--until", "caught-up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_equal(source_table(server, database, "orders"), read(b.url, f"{database}.orders"))


@pytest.mark.soak
@on("mariadb")
def test_bad_weather_stops_no_runner(
    server: Server,
    database: str,
    new_host: HostFactory,
    faults: StoreFaults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that refuses some requests, loses some answers, and is away for longer than the lease is valid."""
    seed_table(server, database, "orders", 2_000)
    host, dice = new_host("a", faults.port), random.Random(3)

    def weather(method: str, _path: str) -> Fault:
        found = dice.random()
        return "503" if found < 0.03 else "lost" if found < 0.1 and method == "PUT" else ""

    faults.fault = weather
    runner = host.pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=100) as load_:
        host.pipeline.wait_for(lambda: load_.committed > 300, runner)
        refused = faults.met["503"]
        faults.fault = lambda _method, _path: "503"
        valid_s = time.monotonic() + 15  # longer than the lease
        host.pipeline.wait_for(lambda: faults.met["503"] > refused + 50 and time.monotonic() > valid_s, runner)
        faults.fault = weather
        epochs = len(host.pipeline.events("epoch.committed"))
        host.pipeline.wait_for(lambda: len(host.pipeline.events("epoch.committed")) > epochs + 3, runner)
    host.pipeline.finish(runner)
    assert not [one for one in host.pipeline.events("table.state") if one["state"] == "stopped"]
    assert {"503", "lost"} <= faults.met.keys()
    faults.fault = lambda _method, _path: ""
    for name, value in host.environment.items():
        monkeypatch.setenv(name, value)
    assert_equal(source_table(server, database, "orders"), read(host.url, f"{database}.orders"))
