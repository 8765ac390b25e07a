"""Two hosts without a common path run a pipeline in turn, whatever becomes of the one that holds it.

A host is a mount namespace in which the other's folder is empty, with its own way to the bucket and to the source. So a
cut network is one host's alone.
"""

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from engine.explore import read
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.cut_proxy import CutProxy
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.apart import can_hide
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.support.depth import depth
from tests.support.patience import PATIENCE_S
from tests.support.store_faults import StoreFaults, store_faults

End = Literal["killed", "stopped", "cut"]
ENDS: tuple[End, ...] = ("killed", "stopped", "cut")
ROUNDS = depth(1, 4)

pytestmark = pytest.mark.skipif(not can_hide(), reason="folders cannot be hidden from a process on this machine")


@dataclass
class Host:
    """A host, and its ways to bucket and source."""

    pipeline: Pipeline
    url: str
    store: StoreFaults
    source: CutProxy
    runner: Runner | None = None

    def start(self, *arguments: str) -> Runner:
        """Start a runner."""
        self.runner = self.pipeline.start(*arguments, killed=True)
        return self.runner

    def cut(self, *, cut: bool) -> None:
        """Cut its network, or restore it."""
        self.store.fault = lambda _method, _path: "dropped" if cut else ""
        self.source.cut = cut

    def wait_until_it_reads(self) -> None:
        """Until its runner has begun to read."""
        runner = self.runner
        assert runner is not None

        def reads() -> bool:
            own = {one["run"] for one in self.pipeline.events("run.started") if one["pid"] == runner.pid}
            return any(one["run"] in own for one in self.pipeline.events("run.connected"))

        self.pipeline.wait_for(reads, runner)

    def wait_for_text(self, text: str) -> None:
        """Until its runner has printed it."""
        assert self.runner is not None
        self.pipeline.wait_for(lambda: text in self.pipeline.output, self.runner)


@pytest.fixture
def pair(
    server: Server, database: str, tmp_path: Path, new_pipeline: PipelineFactory, bucket: BucketServer
) -> Iterator[list[Host]]:
    """Two hosts of one pipeline."""
    if not bucket.replaces:
        pytest.skip("the server replaces whatever the condition says: Go is missing, which builds the right one")
    url = f"s3://lake/{database}/state"
    folders = [tmp_path / name for name in ("a", "b")]
    with ExitStack() as stack:
        hosts = []
        for folder in folders:
            folder.mkdir()
        for folder, other in zip(folders, reversed(folders), strict=True):
            store, source = stack.enter_context(store_faults(bucket.port)), stack.enter_context(CutProxy(server))
            environment = {
                **CREDENTIALS,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}",
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
                hidden=[other],
            )
            text = pipeline.spec.read_text().replace('path = "lake"', f'path = "s3://lake/{database}/lake"')
            text = text.replace(f"port = {server.port}", f"port = {source.port}")
            pipeline.spec.write_text(f'state = "{url}"\n{text}')
            pipeline.home = folder / "shop" / "runner"
            hosts.append(Host(pipeline, url, store, source))
        yield hosts


@pytest.mark.parametrize("seed", range(depth(1, 20)))
def test_hosts_take_over_from_each_other(
    server: Server, database: str, pair: list[Host], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load, in both directions. One that is late ends by itself, and at the end the rows are the source's."""
    dice = random.Random(seed)
    seed_table(server, database, "orders", 2_000)
    holder, other = pair
    holder.start()
    with Workload(server, database, "orders", seed, rate=100) as load:
        for number in range(ROUNDS):
            holder.wait_until_it_reads()
            other.start("--standby")
            other.wait_for_text("renews its lease")
            _wait_for_changes(holder, load, dice.randrange(50, 400))
            end: End = "cut" if number == 0 else dice.choice(ENDS)
            _end(holder, end)
            other.wait_until_it_reads()
            _return(holder, end)
            holder, other = other, holder
            _wait_for_changes(holder, load, 100)
    assert holder.runner is not None
    holder.pipeline.finish(holder.runner)
    for name, value in holder.pipeline.environment.items():
        monkeypatch.setenv(name, value)
    assert_equal(source_table(server, database, "orders"), read(holder.url, f"{database}.orders"))


def _wait_for_changes(host: Host, load: Workload, number: int) -> None:
    least = load.committed + number
    assert host.runner is not None
    host.pipeline.wait_for(lambda: load.committed > least, host.runner)


def _end(host: Host, end: End) -> None:
    assert host.runner is not None
    if end == "cut":
        host.cut(cut=True)
    else:
        host.runner.send_signal(signal.SIGKILL if end == "killed" else signal.SIGSTOP)


def _return(host: Host, end: End) -> None:
    """Let the host come back: its runner finds that it has lost the pipeline."""
    assert host.runner is not None
    if end == "cut":
        host.cut(cut=False)
    elif end == "stopped":
        host.runner.send_signal(signal.SIGCONT)
    code = host.runner.wait(PATIENCE_S)
    assert code == (-signal.SIGKILL if end == "killed" else 5), host.pipeline.output[-3000:]
