"""A real replica of a private server, by GTID on both flavors, and its promotion."""

import time

from tests.servers.server import Server
from tests.support.patience import PATIENCE_S


def replicate(replica: Server, source: Server) -> None:
    """Make `replica` replicate `source` from the first transaction on and log it (`log_slave_updates` on MariaDB)."""
    login = f"HOST = '{source.host}', {{}}_PORT = {source.port}, {{}}_USER = 'root'"
    if replica.flavor == "mysql":
        to = "SOURCE_" + login.replace("{}", "SOURCE")
        # By default, a replica gives up after ten tries, which are ten seconds.
        retry = "SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400"
        replica.execute(f"CHANGE REPLICATION SOURCE TO {to}, SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 0, {retry}")
        replica.execute("START REPLICA")
    else:
        to = "MASTER_" + login.replace("{}", "MASTER")
        replica.execute(f"CHANGE MASTER TO {to}, MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1")
        replica.execute("START SLAVE")


def executed(server: Server) -> str:
    """The executed GTIDs, as the server writes them."""
    variable = "@@global.gtid_executed" if server.flavor == "mysql" else "@@global.gtid_binlog_pos"
    return str(server.execute(f"SELECT {variable}")[0][0]).replace("\n", "")


def await_executed(server: Server, gtids: str) -> None:
    """Wait until the server has executed exactly these GTIDs."""
    deadline = time.monotonic() + PATIENCE_S
    while executed(server) != gtids:
        assert time.monotonic() < deadline, f"{executed(server)} instead of {gtids}\n{server.log_tail()}"
        time.sleep(0.05)


def take_over(replica: Server, primary: Server) -> None:
    """Stop the primary and let its replica, which must have applied everything, answer at its address."""
    primary.stop()
    promote(replica)
    replica.stop()
    replica.port = primary.port
    replica.launch()


def promote(replica: Server) -> None:
    """Make it an independent server."""
    if replica.flavor == "mysql":
        replica.execute("STOP REPLICA")
        replica.execute("RESET REPLICA ALL")
    else:
        replica.execute("STOP SLAVE")
        replica.execute("RESET SLAVE ALL")


def hold(replica: Server) -> None:
    """Stop its SQL thread."""
    replica.execute("STOP REPLICA SQL_THREAD" if replica.flavor == "mysql" else "STOP SLAVE SQL_THREAD")


def go_on(replica: Server, delay_s: int = 0) -> None:
    """Let it apply again, with a delay of that many seconds."""
    if replica.flavor == "mysql":
        replica.execute(f"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {delay_s}")
        replica.execute("START REPLICA SQL_THREAD")
    else:
        replica.execute("STOP SLAVE")
        replica.execute(f"CHANGE MASTER TO MASTER_DELAY = {delay_s}")
        replica.execute("START SLAVE")
