"""The power fails while tables are copied and streamed: unsynced data is lost, but no row."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DatabaseFactory
from tests.live.support.change_log import change_log_faults
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create
from tests.live.support.pipeline import Pipeline
from tests.powercut.cut import PowerCut
from tests.servers import Pool
from tests.support.depth import depth, on

NAMES, ROWS, WRITTEN = ("falling", "ranked"), 600, 700
SEEDS: list[int | None] = [None, *range(depth(0, 30))]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder that loses what was not synced."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def pipeline(
    flavor: str, servers: Pool, new_database: DatabaseFactory, disk: Path
) -> Iterator[tuple[Pipeline, PowerCut]]:
    """A pipeline whose folder and lake are on that disk."""
    server = servers.get(flavor)
    database = new_database(server)
    for name in NAMES:
        create(server, database, name, ROWS)
    power = PowerCut(disk)
    key = f'chunk_key = {{ "{database}.ranked" = "place" }}'
    environment = power.environment
    made = Pipeline(server, database, disk, chunk_rows=100, poll=0.2, merge=0.5, snapshot=key, environment=environment)
    yield made, power
    made.kill()


def _says(pipeline: Pipeline, event: str, since: int) -> bool:
    """Whether the newest of more than `since` journals has such an event."""
    journals = sorted((pipeline.home / "journal").glob("*.jsonl"))
    return len(journals) > since and f'"event": "{event}"' in journals[-1].read_text(errors="replace")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@on("mysql")
def test_a_power_cut_loses_no_row(pipeline: tuple[Pipeline, PowerCut], flavor: str, servers: Pool) -> None:
    """At random instants, on strict and other disks: each next run continues by itself, and all tables end equal."""
    (made, power), server = pipeline, servers.get(flavor)
    for number, seed in enumerate(SEEDS):
        before = len(list((made.home / "journal").glob("*.jsonl"))) if made.home.exists() else 0
        with KeyedWriter(server, made.database, list(NAMES), WRITTEN, 100.0) as writer:
            runner = made.start()
            awaited = "chunk.finished" if number == 0 else "epoch.committed"
            made.wait_for(lambda e=awaited, n=before: _says(made, e, n), runner)  # type: ignore[misc]
            time.sleep(random.Random(number).uniform(0.1, 4.0))
            power.cut(seed)
            runner.wait(10)
            writer.stop()
    made.run("caught-up")
    for name in NAMES:
        assert_equal(source_table(server, made.database, name), made.mirror(name), KEYED[name].names)
        log, mirror = lake_table(made.changes(name)), lake_table(made.mirror(name))
        assert not change_log_faults(log, mirror, name, whole=not KEYED[name].moves)
