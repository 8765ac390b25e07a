"""The contract of destinations, on PostgreSQL, MySQL and MariaDB (`tests.unit.destination.test_contract`)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.pool import Pool
from tests.servers.postgres import Postgres, postgres
from tests.unit.destination.support import (
    DATABASE,
    Kind,
)
from tests.unit.destination.test_contract import (
    test_a_column_comes_and_another_one_goes,
    test_a_failed_table_fails_alone_and_stays_as_it_was,
    test_a_failed_table_is_repaired_by_a_resnapshot,
    test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed,
    test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns,
    test_an_earlier_term_writes_nothing_more,
    test_an_epoch_that_is_applied_again_changes_nothing,
    test_what_a_destination_cannot_do_is_absent,
    test_what_is_not_published_is_not_seen,
)

__all__ = [
    "test_a_column_comes_and_another_one_goes",
    "test_a_failed_table_fails_alone_and_stays_as_it_was",
    "test_a_failed_table_is_repaired_by_a_resnapshot",
    "test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed",
    "test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns",
    "test_an_earlier_term_writes_nothing_more",
    "test_an_epoch_that_is_applied_again_changes_nothing",
    "test_what_a_destination_cannot_do_is_absent",
    "test_what_is_not_published_is_not_seen",
]
STATE = "tidemark_state"


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL for the tests of this file."""
    with postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture(params=["postgresql", "mysql", "mariadb"], autouse=True)
def address(request: pytest.FixtureRequest, servers: Pool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Each database in turn: `[sink.database]`."""
    if request.param == "postgresql":
        port = request.getfixturevalue("postgresql").port
        found = {"host": "127.0.0.1", "port": port, "user": "tidemark", "database": "postgres", "state_schema": STATE}
    else:
        server = servers.get(request.param)
        server.execute(f"CREATE DATABASE IF NOT EXISTS {STATE}")
        found = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": STATE}
    monkeypatch.setenv(DATABASE, json.dumps(found))
    return found


@pytest.fixture
def kind(request: pytest.FixtureRequest, address: dict[str, Any]) -> Kind:
    """This destination."""
    return "postgresql" if "state_schema" in address else "mysql"
