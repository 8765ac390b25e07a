"""The depth of the tests: `make soak` runs many more examples than `make test`.

`make test` is to end within an hour on two cores, so it runs `short_run` of what there is. pytest without `--short`
runs everything.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

from tests.servers import FLAVORS

T = TypeVar("T")
SOAK = bool(os.environ.get("TIDEMARK_SOAK"))


def depth(usual: T, soak: T) -> T:
    """A number of examples, a rate or a list of cases: the usual one, or the one for a soak test."""
    return soak if SOAK else usual


def in_soak(*values: object) -> ParameterSet:
    """Parameters of an example that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.soak)


def on(flavor: str) -> pytest.MarkDecorator:
    """For behaviour that no server changes: a test runs on this one, and in a soak test on both."""
    return pytest.mark.parametrize("flavor", depth([flavor], list(FLAVORS)))


SERVERS_DIFFER = frozenset(
    f"test_{name}"
    for name in (
        *("binlog", "binlog_off", "blocked_reads", "charsets", "checksums", "chunk", "column_grants", "columns"),
        *("ddl_fuzz", "encrypted_binlog", "engines", "events", "failover", "gtid_mode", "hidden_changes", "json"),
        *("limits_of_servers", "lost_changes", "minimal_images", "one_phase_commits", "plans", "positions"),
        *("preflight_fixes", "privileges", "random_schemas", "session_settings", "source_settings"),
        *("statement_format", "survey", "table_privileges", "tls", "transaction_forms", "values", "watermarks"),
        *("wrong_images", "xa_sessions"),
    )
)
"""Modules of `tests/live` about what a server sends, stores and allows: their tests run on both servers always. All
others are about destinations, Spark, runners and their state, and read the source as these do."""


def short_run(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """What `make test` runs of these: no test marked `soak`; on one server and one database what does not differ there.

    The name of the test chooses, so it is the same one on each machine, and each is chosen for some tests.
    """
    groups: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("soak") is None:
            groups[_alike(item)].append(item)
    return [group[zlib.crc32(" ".join(name).encode()) % len(group)] for name, group in groups.items()]


def _alike(item: pytest.Item) -> tuple[str, ...]:
    """The same for tests that differ in the server or the database alone, if one of them is enough.

    Of a contract's tests one is enough: `tests/unit/destination` has the same for each instant of a kill.
    """
    is_enough = item.path.parent.name in ("live", "browser") and item.path.stem not in SERVERS_DIFFER
    if not is_enough or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return (item.nodeid,)
    test, values = f"{item.path.stem} {item.originalname}", item.callspec.params
    if item.path.stem.endswith("_contract"):
        return (test,)
    places = [values.get("flavor"), values.get("database_address")]
    return (test, *(word for word in item.callspec.id.split("-") if word not in places))
