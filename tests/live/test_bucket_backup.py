"""Backups of a pipeline whose lake is in a bucket, and its state in a folder or a bucket."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.destination.delta.folder_removal import drop
from engine.destination.fence import TERMS
from engine.explore import read
from engine.spec.settings import load
from engine.spec.sink_settings import Sink
from tests.live.conftest import LakeFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import ROOT, Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.patience import PATIENCE_S


@pytest.mark.soak
@pytest.mark.parametrize("state", ["folder", "bucket"])
def test_a_backup_is_put_back(server: Server, database: str, new_lake: LakeFactory, tmp_path: Path, state: str) -> None:
    """It is made during a run; the restore is refused while the run lives, and repeated after it was killed."""
    seed_table(server, database, "orders", 2_000)
    pipeline, file = new_lake(state), str(tmp_path / "backup.zip")
    runner = pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=100) as load_:
        pipeline.wait_for(lambda: load_.committed > 100, runner)
        made = pipeline.command("backup", file, "--json")
        assert made.returncode == 0, made.stdout + made.stderr
        refused = pipeline.command("restore", file)
        assert refused.returncode == 5, refused.stdout + refused.stderr
        epoch, committed = json.loads(made.stdout)["epoch"], load_.committed
        server.execute(f"CREATE TABLE `{database}`.later (id INT PRIMARY KEY)")
        pipeline.wait_for(lambda: _streams(pipeline, f"{database}.later"), runner)
        pipeline.wait_for(lambda: load_.committed > committed + 50 and _epoch(pipeline) > epoch + 3, runner)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        sink = load(pipeline.spec).sink
        _kill_a_restore(pipeline, sink, file)
        restored = pipeline.command("restore", file, "--json")
        assert restored.returncode == 0, restored.stdout + restored.stderr
        assert json.loads(restored.stdout)["epoch"] <= epoch + 2
        assert json.loads(restored.stdout)["later_tables"] == [f"{database}.later"]
        for name in ("later", "later__changes"):  # as the text without --json says
            drop(sink.folder / database / name)
        rows = rows_at(sink.folder / database / "orders__changes")["_tm_seq"].to_pylist()
        runner = pipeline.start_streaming(killed=True)
        committed = load_.committed
        pipeline.wait_for(lambda: load_.committed > committed + 50, runner)
    pipeline.finish(runner)
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    assert_equal(source_table(server, database, "orders"), read(pipeline.spec, f"{database}.orders"))
    verified = pipeline.command("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    log = rows_at(sink.folder / database / "orders__changes")["_tm_seq"].to_pylist()
    assert len(log) > len(rows)
    assert_equal(source_table(server, database, "later"), read(pipeline.spec, f"{database}.later"))
    assert sorted(log) == list(range(min(log), max(log) + 1)), "each change is there once"


def _streams(pipeline: Pipeline, table: str) -> bool:
    return any(event["table"] == table and event["state"] == "streaming" for event in pipeline.events("table.state"))


def _epoch(pipeline: Pipeline) -> int:
    return max((int(event["epoch"]) for event in pipeline.events("epoch.committed")), default=-1)


def _kill_a_restore(pipeline: Pipeline, sink: Sink, file: str) -> None:
    """When it has taken its term in the destination, or has ended."""

    def terms() -> list[str]:
        (ledger,) = (sink.folder / TERMS).folders()
        return [entry.name for entry in (sink.folder / TERMS / ledger).entries()]

    before, deadline_s = terms(), time.monotonic() + PATIENCE_S
    command = [sys.executable, "-m", "engine", "restore", str(pipeline.spec), file]
    with subprocess.Popen(command, cwd=ROOT, env=pipeline.environment) as process:
        while terms() == before and process.poll() is None:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        process.kill()
