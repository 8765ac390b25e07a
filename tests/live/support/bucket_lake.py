"""Pipelines whose lake is in a bucket, and the weather of its store."""

import random
from collections.abc import Callable

from tests.live.support.pipeline import Pipeline
from tests.support.store_faults import Fault, StoreFaults


def in_bucket(pipeline: Pipeline, proxy: StoreFaults, place: str = "some/lake") -> None:
    """Put a pipeline's lake into the bucket, reached through a proxy."""
    sink = f'path = "s3://lake/{place}"\nendpoint = "http://127.0.0.1:{proxy.port}"\nregion = "us-east-1"'
    pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', sink))


def bad_weather(seed: int) -> Callable[[str, str], Fault]:
    """One request in thirty is refused; one put in ten loses its answer."""
    dice = random.Random(seed)

    def weather(method: str, _path: str) -> Fault:
        found = dice.random()
        return "503" if found < 0.03 else "lost" if found < 0.13 and method == "PUT" else ""

    return weather
