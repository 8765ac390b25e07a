"""Random disasters while tables are written.

All tables end equal to the source, or an error names a remedy, which works.
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.store.local_folder import LocalFolder
from tests.live.support.disasters import (
    CHUNK_ROWS,
    NAMES,
    ROWS,
    Disaster,
    World,
    backed_up,
    cleaned,
    clock_jumps,
    copied_folder,
    happen,
    killed,
    older_lake,
    older_ledger,
    other_writers,
    power_fails,
    removed_folder,
    source_away,
    without_lock,
)
from tests.live.support.keyed import create
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server
from tests.servers.drivers import Drivers
from tests.servers.hosts import Hosts
from tests.support.depth import SOAK, depth
from tests.support.mounts import Small, mounted

SEEDS = depth(1, 100)
_DISK_BYTES = 1 << 30


def disk_fills(world: World, disk: Small) -> None:
    """Fill the disk for some seconds: the runner waits for room."""
    runner = world.start()
    disk.fill()
    time.sleep(world.chance.uniform(2.0, 8.0))
    disk.free()
    time.sleep(5.0)
    assert runner.poll() is None, world.pipeline.output[-3000:]
    world.kill(runner)


def disasters(disk: Small) -> list[Disaster]:
    """All of them."""
    return [
        older_ledger,
        cleaned,
        older_lake,
        other_writers,
        without_lock,
        killed,
        copied_folder,
        removed_folder,
        backed_up,
        source_away,
        clock_jumps,
        partial(disk_fills, disk=disk),
        power_fails,
    ]


def chosen(seed: int, flavor: str, disk: Small) -> list[Disaster]:
    """The first five seeds of each server have one disaster each; more seeds choose at random.

    A full disk and a power cut have tests of their own, which take less time.
    """
    every = disasters(disk)
    first = every[seed + 5 * FLAVORS.index(flavor) :][:1] if seed < 5 else []
    return first + (random.Random(f"{flavor} {seed}").choices(every, k=2) if SOAK else [])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Small]:
    """A small disk with the pipeline and the lake on it."""
    with mounted(tmp_path / "disk", _DISK_BYTES) as small:
        yield small


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_disasters_end_equal(
    flavor: str, seed: int, private_server: Callable[..., Server], drivers: Drivers, hosts: Hosts, disk: Small
) -> None:
    """After any sequence of disasters the mirrors equal the source, or the error names a remedy.

    No row is ever wrong.
    """
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    for name in NAMES:
        create(server, "d", name, ROWS)
    key = 'chunk_key = { "d.ranked" = "place" }'
    folder = disk.folder / "all"
    folder.mkdir()
    settings: dict[str, Any] = {"chunk_rows": CHUNK_ROWS, "poll": 0.2, "merge": 0.5, "snapshot": key}
    pipeline = Pipeline(server, "d", folder, drivers=drivers, hosts=hosts, **settings)
    pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', f'path = "{folder}/lake"'))
    world = World(server, "d", pipeline, LocalFolder(folder / "lake"), folder / "lake", random.Random(seed))
    try:
        happen(world, chosen(seed, flavor, disk))
    finally:
        pipeline.kill()
