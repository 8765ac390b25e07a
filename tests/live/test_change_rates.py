"""The change rates that `plan` shows: counted in the binlog of real servers, without a lock or a write."""

from contextlib import closing

import pytest

from engine.base import clock
from engine.decode.schema import Table
from engine.source import change_rates
from engine.source.catalog import read_table
from engine.source.change_rates import WINDOW_S, ChangeRate, recent_changes
from engine.source.connect import Endpoint, open_connection
from tests.conftest import DatabaseFactory, ServerFactory
from tests.live.support.source import COMPRESSED
from tests.servers import PASSWORD, USER, Server, create_user

FIRST_ID = 730_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binlogs that have just begun are watched for two seconds."""
    monkeypatch.setattr(change_rates, "LEAST_S", 2.0)


def endpoint(server: Server, user: str = USER) -> Endpoint:
    """The server as a user sees it."""
    return Endpoint(server.host, server.port, user, PASSWORD)


def tables(server: Server, database: str) -> tuple[Table, Table]:
    """A busy table and a quiet one, both just created."""
    for name in ("busy", "quiet"):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, note VARCHAR(40), doc JSON)")
    with closing(open_connection(endpoint(server))) as connection:
        busy, quiet = (read_table(connection, database, name) for name in ("busy", "quiet"))
    return busy, quiet


def work(server: Server, database: str) -> None:
    """The changes: 40 inserts, 10 of them alone; 20 updates, 5 of them alone; 3 deletes.

    As many inserts again are rolled back.
    """
    many = ", ".join(f"({n}, 'row {n}', '[1]')" for n in range(30))
    server.execute(f"INSERT INTO `{database}`.busy VALUES {many}")
    for n in range(30, 40):
        server.execute(f"INSERT INTO `{database}`.busy VALUES ({n}, NULL, '{{}}')")
    server.execute(f"UPDATE `{database}`.busy SET note = 'changed' WHERE id < 15")
    for n in range(5):
        server.execute(f"UPDATE `{database}`.busy SET doc = '[{n}, 2]' WHERE id = {n}")
    server.execute(f"DELETE FROM `{database}`.busy WHERE id >= 37")
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO `{database}`.busy VALUES (99, NULL, NULL)")
        cursor.execute("ROLLBACK")


def counted(rate: ChangeRate, window_s: float) -> tuple[int, ...]:
    """Inserts, updates and deletes."""
    return tuple(round(n * window_s) for n in (rate.inserts_per_s, rate.updates_per_s, rate.deletes_per_s))


def test_the_changes_of_the_last_minutes_are_counted(server: Server, database: str) -> None:
    """By table and kind; a table without changes has 0. The binlog is not changed by it."""
    busy, quiet = tables(server, database)
    server.execute("FLUSH BINARY LOGS")  # whatever other tests wrote: the binlog from here on is small
    work(server, database)
    rates = recent_changes(endpoint(server), FIRST_ID, [busy, quiet])
    assert (rates.unknown, rates.faults) == ("", {})
    assert 2 <= rates.window_s <= WINDOW_S
    assert counted(rates.rates[busy.full_name], rates.window_s) == (40, 20, 3)
    assert rates.rates[quiet.full_name] == ChangeRate()
    # 83 images of more than 5 bytes and less than 40, in 18 events with less than 20 more.
    assert 83 * 5 < rates.rates[busy.full_name].bytes_per_s * rates.window_s < 83 * 40 + 18 * 20


def test_compressed_changes_are_counted(flavor: str, server_with: ServerFactory, new_database: DatabaseFactory) -> None:
    """MySQL compresses whole transactions, MariaDB single events."""
    server = server_with(flavor, **COMPRESSED[flavor])
    database = new_database(server)
    busy, quiet = tables(server, database)
    server.execute("FLUSH BINARY LOGS")
    work(server, database)
    rates = recent_changes(endpoint(server), FIRST_ID, [busy, quiet])
    assert counted(rates.rates[busy.full_name], rates.window_s) == (40, 20, 3)


def test_of_a_large_binlog_the_next_seconds_are_counted(
    server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the newest file is too large to read: what was written before does not count."""
    busy, quiet = tables(server, database)
    server.execute(f"INSERT INTO `{database}`.quiet VALUES (1, NULL, NULL)")
    waits = clock.sleep

    def meanwhile(seconds: float) -> None:
        work(server, database)
        waits(seconds)

    monkeypatch.setattr(change_rates, "MOST_BYTES", 0)
    monkeypatch.setattr(clock, "sleep", meanwhile)
    rates = recent_changes(endpoint(server), FIRST_ID, [busy, quiet])
    assert counted(rates.rates[busy.full_name], rates.window_s) == (40, 20, 3)
    assert rates.rates[quiet.full_name] == ChangeRate()
    assert rates.window_s == pytest.approx(2, abs=0.1)


def test_without_the_privileges_the_changes_are_unknown(server: Server, database: str) -> None:
    """The reason is the server's; nothing is raised."""
    busy, _ = tables(server, database)
    for name, grants in (
        ("no_replication", ["SELECT ON *.*", "REPLICATION CLIENT ON *.*"]),
        ("no_status", ["SELECT ON *.*", "REPLICATION SLAVE ON *.*"]),
    ):
        create_user(server, name, grants)
        rates = recent_changes(endpoint(server, name), FIRST_ID, [busy])
        assert rates.rates == {}
        assert "denied" in rates.why_unknown(busy.full_name)
