"""What is read from a lake in a bucket: all that is read from a folder."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from engine.explore.queries import answer, landing_of, published_tables
from engine.pipeline.directory import Directory
from engine.spec.settings import load
from tests.live.conftest import LakeFactory
from tests.live.support.compare import assert_equal, assert_read_by_all, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server


def _done(pipeline: Pipeline, runner: Runner, verb: str, *arguments: str) -> dict[str, Any]:
    """Send a command and wait until it is carried out. Returns its event."""
    sent = json.loads(pipeline.command(verb, "--json", *arguments).stdout)
    found: list[dict[str, Any]] = []

    def answered() -> bool:
        found[:] = [e for e in pipeline.events("command.done", "command.refused") if e["id"] == sent["id"]]
        return bool(found)

    pipeline.wait_for(answered, runner)
    assert found[0]["event"] == "command.done", found
    return found[0]


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_every_reader_sees_the_source(
    server: Server, database: str, new_lake: LakeFactory, tmp_path: Path, mode: str
) -> None:
    """After the mirror was damaged, redumped and maintained; and what was there before."""
    seed_table(server, database, "orders", 2_000)
    pipeline, name = new_lake("folder", mirror=mode), f"{database}.orders"
    before, runner = source_table(server, database, "orders"), pipeline.start_streaming()
    count = f"SELECT count(*) AS n, sum(id) AS s FROM {name}"
    pipeline.wait_for(lambda: _answer(pipeline, count)["n"] == before.num_rows, runner)  # a mirror follows its log
    seen = datetime.now(UTC)
    with Workload(server, database, "orders", 1, rate=100) as load_:
        pipeline.wait_for(lambda: load_.committed > 100, runner)
        lake = load(pipeline.spec).sink.folder
        mirror, changes = lake / database / "orders", lake / database / "orders__changes"
        _damage(pipeline, runner, mirror.url, dict(mirror.options))
        redumped = _done(pipeline, runner, "redump", "--table", name, "--range", "", "1000")
        assert redumped["result"]
        maintained = _done(pipeline, runner, "maintain", "--table", name)
        assert maintained["result"]["failed"] == []
    pipeline.finish(runner)
    source = source_table(server, database, "orders")
    assert_read_by_all(source, mirror.url, changes.url)
    verified = pipeline.command("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (sizes,) = json.loads(pipeline.command("maintain", "--dry-run", "--json").stdout)["tables"]
    assert (sizes["table"], sizes["sizes"]["mirror_files"] > 0) == (name, True)
    earlier = tmp_path / "earlier.parquet"
    shown = pipeline.command("read", name, "--as-of", seen.isoformat(), "--format", "parquet", "--out", str(earlier))
    assert shown.returncode == 0, shown.stderr
    assert_equal(before, pq.read_table(earlier))
    assert _answer(pipeline, count) == {"n": source.num_rows, "s": sum(source["id"].to_pylist())}


def _answer(pipeline: Pipeline, sql: str) -> dict[str, Any]:
    """The one row that Explore shows."""
    landing = landing_of(load(pipeline.spec).sink)
    (row,) = answer(landing, published_tables(Directory(pipeline.home)), sql).rows.to_pylist()
    return dict(row)


def _damage(pipeline: Pipeline, runner: Runner, url: str, options: dict[str, str]) -> None:
    """Behind Tidemark's back, as often as it takes: others commit too."""

    def damaged() -> bool:
        try:
            table = DeltaTable(url, storage_options=options)
            table.update({"quantity": "quantity + 1"}, predicate="id < 1000 AND id % 5 = 0")
            table.delete("id < 1000 AND id % 7 = 0")
        except CommitFailedError:
            return False
        return True

    pipeline.wait_for(damaged, runner)
