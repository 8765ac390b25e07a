"""The workload does what the live tests rely on."""

import re
import time

import pytest

from tests.conftest import ServerFactory
from tests.live.support.compare import source_table
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload, WorkloadError
from tests.servers import Server
from tests.support.patience import PATIENCE_S

KINDS = {"insert", "update", "update hot", "delete", "move far", "move onto", "swap", "reinsert", "many rows"}


def transactions_in_log(server: Server) -> int:
    """How many transactions the server has logged, by its own count."""
    if server.flavor == "mysql":
        gtids = server.execute("SELECT @@global.gtid_executed")[0][0]
        return sum(int(last or first) - int(first) + 1 for first, last in re.findall(r":(\d+)(?:-(\d+))?", gtids))
    position = server.execute("SELECT @@global.gtid_binlog_pos")[0][0]
    return int(position.rpartition("-")[2]) if position else 0


def test_the_seed_is_reproducible_and_can_stay_out_of_the_log(server: Server, database: str) -> None:
    """Two fills are equal in every value; with ``binlog=False`` the log holds the table's creation alone."""
    seed_table(server, database, "one", 1000)
    before = transactions_in_log(server)
    seed_table(server, database, "other", 1000, binlog=False)
    assert transactions_in_log(server) == before + 1
    one, other = source_table(server, database, "one"), source_table(server, database, "other")
    assert one.equals(other)
    assert one.column("id").to_pylist() == list(range(1, 1001))
    assert 0 < one.column("note").null_count < 1000


def test_every_committed_transaction_is_counted(server: Server, database: str) -> None:
    """The rate is at most the requested one, with every kind of transaction.

    The count equals that of the binlog.
    """
    seed_table(server, database, "orders", 20_000)
    before = transactions_in_log(server)
    with Workload(server, database, "orders", seed=1, rate=700) as load:
        time.sleep(3)
    assert load.committed == transactions_in_log(server) - before
    assert 0 < load.per_second < 800
    assert set(load.counts) >= KINDS | {"many statements", "savepoint", "rolled back"}


def test_a_killed_server_is_waited_for(private_server: ServerFactory, flavor: str) -> None:
    """The workload continues when the server is back."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    seed_table(server, "d", "orders", 1000)
    with Workload(server, "d", "orders", seed=1) as load:
        server.kill()
        server.restart()
        after = load.committed
        deadline = time.monotonic() + PATIENCE_S
        while load.committed < after + 100 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert load.committed >= after + 100
    assert load.counts["lost"]


def test_a_failing_load_says_why(server: Server, database: str) -> None:
    """A missing table raises an error."""
    with pytest.raises(WorkloadError, match="doesn't exist"):
        Workload(server, database, "missing", seed=1).start()
