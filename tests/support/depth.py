"""The depth of the tests: `make soak` runs many more examples than `make test`."""

import os
import zlib
from typing import TypeVar

import pytest

from tests.servers import FLAVORS

T = TypeVar("T")
SOAK = bool(os.environ.get("TIDEMARK_SOAK"))


def depth(usual: T, soak: T) -> T:
    """A number of examples, a rate or a list of cases: the usual one, or the one for a soak test."""
    return soak if SOAK else usual


def on(flavor: str) -> pytest.MarkDecorator:
    """For behaviour that no server changes: a test runs on this one, and in a soak test on both."""
    return pytest.mark.parametrize("flavor", depth([flavor], list(FLAVORS)))


SAME_ON_BOTH = frozenset(
    f"test_{name}"
    for name in (
        *("apart", "bucket", "bucket_backup", "bucket_disasters", "bucket_reads", "catalogs", "database_weather"),
        *("databases", "decisions", "disaster", "early_start", "frozen", "further_sinks", "host_takeover", "iceberg"),
        *("kafka", "kafka_schemas", "maintenance", "membership", "merge_now", "mirror_written", "new_generations"),
        *("parquet", "registered_pipelines", "requests", "sinks_in_buckets", "stops"),
    )
)
"""Modules about destinations, Spark, runners and their state, in `tests/live`. They read the source as all others do,
so `make test` runs each of their tests on one server: `--one-server`."""


def of_one_server(module: str, test: str, flavor: str) -> bool:
    """Whether a test is to run on this server, if it runs on one only. test: the name of its function."""
    return module not in SAME_ON_BOTH or flavor == FLAVORS[zlib.crc32(f"{module} {test}".encode()) % len(FLAVORS)]
