"""Readers on hosts that share no folder with the runner: a bucket is all that they have in common.

A reader's host is a mount namespace in which the folders of runner and repository are empty.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from engine.explore import read
from tests.conftest import DatabaseFactory, ServerFactory
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.sessions import spark_settings
from tests.live.support.workload import Workload
from tests.servers import Pool
from tests.servers.apart import can_hide
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.servers.spark import Cluster, ConnectServer, Elsewhere
from tests.support.depth import SOAK, in_soak

ROWS = 2_000_000 if SOAK else 20_000
REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not can_hide(), reason="folders cannot be hidden from a process on this machine")


@pytest.fixture
def apart(tmp_path: Path) -> list[Path]:
    """What readers do not see: all folders of the runner, and the sources."""
    return [tmp_path, REPOSITORY / "engine", REPOSITORY / "tests"]


@contextmanager
def readers(kind: str, apart: Elsewhere) -> Iterator[str]:
    """The settings of a session whose readers are on such hosts."""
    if kind == "connect":
        with ConnectServer(elsewhere=apart) as connect:
            yield spark_settings(connect.master)
    else:
        with Cluster(workers=3, elsewhere=apart) as cluster:
            yield spark_settings(cluster.master)


def in_bucket(pipeline: Pipeline, bucket: BucketServer, place: str) -> None:
    """Put its lake into a bucket."""
    lake = f'path = "s3://lake/{place}"\nendpoint = "http://127.0.0.1:{bucket.port}"\nregion = "us-east-1"'
    pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', lake))


@pytest.mark.parametrize("kind", ["standalone", in_soak("connect")])
def test_readers_share_nothing_with_the_runner_but_a_bucket(
    flavor: str,
    server_with: ServerFactory,
    new_database: DatabaseFactory,
    new_pipeline: PipelineFactory,
    bucket: BucketServer,
    apart: list[Path],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table is copied and streamed while it changes, by readers of all workers.

    They verify the source's certificate by a file that only the runner has.
    """
    server = server_with(flavor, tls=True)
    database = new_database(server)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    seed_table(server, database, "orders", ROWS, binlog=False)
    with readers(kind, Elsewhere(apart, CREDENTIALS)) as settings:
        pipeline = new_pipeline(
            server, database, chunk_rows=ROWS // 20, merge=1.0, spark=settings, environment=CREDENTIALS
        )
        in_bucket(pipeline, bucket, f"{database}-{kind}")
        assert server.ca_file is not None
        shutil.copy(server.ca_file, pipeline.folder / "ca.pem")
        verified = 'tls = "verify"\ntls_ca = "ca.pem"\npassword_env = '
        pipeline.spec.write_text(pipeline.spec.read_text().replace("password_env = ", verified, 1))
        runner = pipeline.start()
        with Workload(server, database, "orders", 1, rate=100) as load:
            pipeline.wait_for(
                lambda: any(event["state"] == "streaming" for event in pipeline.events("table.state")), runner
            )
            pids = {event["pid"] for event in pipeline.events("chunk.finished")}
            assert len(pids) >= 2
            assert all(not _sees(pid, pipeline.spec) for pid in pids if psutil.pid_exists(pid))
            more = load.committed + 100
            pipeline.wait_for(lambda: load.committed > more, runner)
        pipeline.finish(runner)
    assert_equal(source_table(server, database, "orders"), read(pipeline.spec, f"{database}.orders"))


@pytest.mark.soak
def test_hosts_without_credentials_are_named(
    servers: Pool,
    new_database: DatabaseFactory,
    new_pipeline: PipelineFactory,
    bucket: BucketServer,
    apart: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a row is read; with the variables that the hint names, the same cluster copies. One source is enough."""
    server = servers.get("mysql")
    database = new_database(server)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    seed_table(server, database, "orders", 100)
    with readers("standalone", Elsewhere(apart)) as settings:
        pipeline = new_pipeline(server, database, spark=settings, environment=CREDENTIALS)
        in_bucket(pipeline, bucket, f"{database}-named")
        failed = pipeline.command("run", "--until", "snapshot")
        assert failed.returncode == 3, failed.stderr[-3000:]
        error = pipeline.events("run.ended")[-1]["error"]
        assert f"workers on {socket.gethostname()} cannot write to the destination, s3://lake/" in error["message"]
        assert "spark.executorEnv.AWS_ACCESS_KEY_ID" in error["hint"]
        assert not pipeline.events("chunk.assigned")
        passed = "".join(f'"spark.executorEnv.{name}" = "{value}"\n' for name, value in CREDENTIALS.items())
        pipeline.spec.write_text(pipeline.spec.read_text().replace("[spark.conf]\n", f"[spark.conf]\n{passed}"))
        done = pipeline.command("run", "--until", "snapshot")
        assert done.returncode == 0, done.stderr[-3000:]
    assert read(pipeline.spec, f"{database}.orders").num_rows == 100


def _sees(pid: int, path: Path) -> bool:
    return Path(f"/proc/{pid}/root{path}").exists()
