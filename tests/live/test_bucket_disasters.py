"""Random disasters of a pipeline whose lake is in a bucket, while the store refuses requests and loses answers.

All tables end equal to the source, or an error names a remedy, which works.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bucket_lake import bad_weather, in_bucket
from tests.live.support.disasters import (
    CHUNK_ROWS,
    NAMES,
    ROWS,
    Disaster,
    World,
    backed_up,
    cleaned,
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
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.servers.hosts import Hosts
from tests.support.depth import SOAK, depth
from tests.support.store_faults import Fault, StoreFaults

_MODES = ("copy_on_write", "merge_on_read")


def store_fails(world: World, faults: StoreFaults, fault: Fault) -> None:
    """No request succeeds for some seconds: the runner waits for the store; then it is killed."""
    runner, weather = world.start(), faults.fault
    time.sleep(world.chance.uniform(0.5, 2.0))
    faults.fault = lambda _method, _path: fault
    world.pipeline.wait_for(lambda: world.pipeline.events("store.away"), runner)
    time.sleep(world.chance.uniform(0.0, 3.0))
    faults.fault = weather
    time.sleep(world.chance.uniform(0.0, 3.0))
    world.kill(runner)


def disasters(faults: StoreFaults) -> list[Disaster]:
    """All of them."""
    return [
        killed,
        cleaned,
        older_lake,
        copied_folder,
        partial(store_fails, faults=faults, fault="dropped"),
        power_fails,
        other_writers,
        older_ledger,
        removed_folder,
        without_lock,
        backed_up,
        partial(store_fails, faults=faults, fault="403"),
        partial(store_fails, faults=faults, fault="hung"),
        source_away,
    ]


def chosen(seed: int, flavor: str, faults: StoreFaults) -> list[Disaster]:
    """The first seeds of each server have one disaster each; a soak test adds some at random."""
    every = disasters(faults)
    first = every[seed * len(FLAVORS) + FLAVORS.index(flavor) :][:1]
    return first + (random.Random(f"{flavor} {seed}").choices(every, k=2) if SOAK else [])


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(depth(1, 40)))
def test_disasters_end_equal_in_a_bucket(
    flavor: str,
    seed: int,
    private_server: Callable[..., Server],
    bucket: BucketServer,
    faults: StoreFaults,
    hosts: Hosts,
    tmp_path: Path,
) -> None:
    """After any sequence of disasters the mirrors equal the source, or the error names a remedy.

    No row is ever wrong. Seeds have the modes of mirrors in turn.
    """
    server, place = private_server(flavor), f"{flavor}-{seed}"
    server.execute("CREATE DATABASE d")
    for name in NAMES:
        create(server, "d", name, ROWS)
    folder = tmp_path / "all"
    folder.mkdir()
    settings: dict[str, Any] = {"chunk_rows": CHUNK_ROWS, "poll": 0.2, "merge": 0.5}
    settings |= {"snapshot": 'chunk_key = { "d.ranked" = "place" }', "spark": 'master = "local[2]"'}
    mode = _MODES[(seed + FLAVORS.index(flavor)) % 2]
    pipeline = Pipeline(server, "d", folder, hosts=hosts, environment=CREDENTIALS, mirror=mode, **settings)
    in_bucket(pipeline, faults, place)
    faults.fault = bad_weather(seed)
    world = World(server, "d", pipeline, bucket.root / place, bucket.folder / place, random.Random(seed))
    try:
        happen(world, chosen(seed, flavor, faults))
    finally:
        pipeline.kill()
