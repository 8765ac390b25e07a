"""Fixtures for all tests: private servers, shared by the run, and databases of one test."""

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.servers import FLAVORS, NEWEST, Pool, Server, classes, start
from tests.servers.drivers import Drivers
from tests.servers.encryption import start_encrypted
from tests.servers.hosts import Hosts
from tests.support.depth import short_run
from tests.support.mounts import Small, mounted
from tests.support.receiver import Receiver

ServerFactory = Callable[..., Server]
DatabaseFactory = Callable[..., str]
_numbers = count(1)

classes.use()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test` has it."""
    parser.addoption("--short", action="store_true", help="without soak tests; each test on one server if it may")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests begin first, so that no worker is left alone with them at the end."""
    if config.getoption("--short"):
        chosen = set(short_run(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """Streamlit's AppTest leaves its page as `__main__`, which processes of a later test would run when they start."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(scope="session")
def servers() -> Iterator[Pool]:
    """All servers of the test run."""
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    """The JVMs for runners with a local session."""
    pool = Drivers()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """Processes that run the commands a test waits for."""
    pool = Hosts()
    yield pool
    pool.close()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Each flavor in turn, for tests that set server options."""
    return str(request.param)


@pytest.fixture
def server(servers: Pool, flavor: str) -> Server:
    """A running server with default options (GTID on): the test runs once on MySQL and once on MariaDB."""
    return servers.get(flavor)


@pytest.fixture
def newest(servers: Pool) -> Server:
    """A running MariaDB of its newest LTS."""
    return servers.get("mariadb", release=NEWEST)


@pytest.fixture
def server_with(servers: Pool) -> ServerFactory:
    """``server_with(flavor, **options)``: a shared server with these options; do not stop it or set globals on it."""
    return servers.get


@pytest.fixture
def private_server() -> Iterator[ServerFactory]:
    """``private_server(flavor, **options)``: a server for this test alone.

    It may be killed, restarted and reconfigured.
    """
    started: list[Server] = []

    def factory(flavor: str, **options: Any) -> Server:
        started.append(start(flavor, **options))
        return started[-1]

    yield factory
    for server in started:
        server.close()


@pytest.fixture
def encrypted_server() -> Iterator[ServerFactory]:
    """``encrypted_server(flavor, **options)``: as `private_server`, with an encrypted binlog."""
    started: list[Server] = []

    def factory(flavor: str, **options: Any) -> Server:
        started.append(start_encrypted(flavor, **options))
        return started[-1]

    yield factory
    for server in started:
        server.close()


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Iterator[DatabaseFactory]:
    """``new_database(server, ending)``: a new empty database, dropped after the test.

    Returns its name, which has that ending.
    """
    made: list[tuple[Server, str]] = []

    def factory(server: Server, ending: str = "") -> str:
        words = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")[:40]
        name = f"{words}_{next(_numbers)}{ending}"
        server.execute(f"CREATE DATABASE `{name}`")
        made.append((server, name))
        return name

    yield factory
    for server, name in made:
        with suppress(pymysql.err.OperationalError):  # the test may have killed the server
            server.execute(f"DROP DATABASE IF EXISTS `{name}`")


@pytest.fixture
def database(server: Server, new_database: DatabaseFactory) -> str:
    """A fresh database on `server`."""
    return new_database(server)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook that records what is posted to it."""
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    """A disk of one megabyte."""
    with mounted(tmp_path / "small", 1 << 20) as disk:
        yield disk


def pytest_collection_finish() -> None:
    """Modules stay until the end: the garbage collector need not look at them in each of thousands of tests."""
    gc.collect()
    gc.freeze()
