"""The process behind `workload.Workload`: transactions over several connections until standard input closes.

Standard input's first line is the JSON of `Traffic`; standard output gets a line of JSON with the counts a few times
a second and one at the end. Losing our parent closes standard input too, so nobody is left writing.
"""

import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pymysql
from pymysql.constants import CLIENT, CR, ER

from tests.live.support.transactions import Transaction, Transactions

REPORT_S = 0.2
RECONNECT_S = 0.1
CONFLICTS = {ER.DUP_ENTRY, ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.CHECKREAD}
LOST = {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, ER.SERVER_SHUTDOWN}


@dataclass(frozen=True)
class Traffic:
    """Where to write and how much: `rate` transactions a second over all connections, 0 for as many as possible."""

    host: str
    port: int
    database: str
    table: str
    seed: int
    rate: float
    connections: int


class Client:
    """One connection's stream of transactions, with its own counts."""

    def __init__(self, traffic: Traffic, number: int, stopping: threading.Event) -> None:
        """`number`: which client of the traffic this is."""
        self.traffic, self.number, self.stopping = traffic, number, stopping
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Write until stopped. A lost connection is opened again, because tests kill and restart servers."""
        while not self.stopping.is_set():
            try:
                self._write(self._connect())
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                if isinstance(error, pymysql.err.OperationalError) and error.args[0] not in LOST:
                    raise
                self.counts["lost"] += 1
                self.stopping.wait(RECONNECT_S)

    def _connect(self) -> "pymysql.connections.Connection[Any]":
        return pymysql.connect(
            host=self.traffic.host,
            port=self.traffic.port,
            user="root",
            database=self.traffic.database,
            autocommit=True,
            charset="utf8mb4",
            client_flag=CLIENT.MULTI_STATEMENTS,
            init_command="SET time_zone = '+00:00'",
        )

    def _write(self, connection: "pymysql.connections.Connection[Any]") -> None:
        table = f"`{self.traffic.table}`"
        with connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {table}")
            seed = f"{self.traffic.seed}/{self.number}/{self.counts['lost']}"
            transactions = Transactions(table, seed, cursor.fetchall()[0][0])
            due = time.monotonic()
            while not self.stopping.is_set():
                self._run(connection, cursor, transactions.next())
                transactions.latest = cursor.lastrowid or transactions.latest
                if self.traffic.rate:
                    due = max(due + self.traffic.connections / self.traffic.rate, time.monotonic() - 1.0)
                    self.stopping.wait(max(0.0, due - time.monotonic()))

    def _run(self, connection: Any, cursor: Any, transaction: Transaction) -> None:
        try:
            rows = max(cursor.execute(transaction.sql), 0)
            while cursor.nextset():
                rows += max(cursor.rowcount, 0)
        except pymysql.err.MySQLError as error:
            if error.args[0] not in CONFLICTS:
                raise
            connection.rollback()
            self.counts["conflicts"] += 1
            return
        if transaction.commits and rows:
            self.counts["committed"] += 1
            self.counts["rows"] += rows
            self.counts[transaction.kind] += 1
        elif not transaction.commits:
            self.counts["rolled back"] += 1


def main() -> None:
    """Run the clients of the traffic that standard input describes."""
    traffic = Traffic(**json.loads(sys.stdin.readline()))
    stopping = threading.Event()
    clients = [Client(traffic, number, stopping) for number in range(traffic.connections)]
    failures: list[str] = []

    def run(client: Client) -> None:
        try:
            client.run()
        except Exception as error:  # noqa: BLE001 - any failure is sent to the parent, which raises it
            failures.append(repr(error))
            stopping.set()

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    threading.Thread(target=_stop_with_parent, args=(stopping,), daemon=True).start()
    while not stopping.wait(REPORT_S):
        _report(clients, failures)
    for thread in threads:
        thread.join()
    _report(clients, failures)


def _stop_with_parent(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


def _report(clients: list[Client], failures: list[str]) -> None:
    counts = sum((Counter(client.counts) for client in clients), Counter[str]())
    with suppress(BrokenPipeError):
        print(json.dumps({"counts": counts, "failures": failures}), flush=True)


def encode(traffic: Traffic) -> str:
    """The line that `main` reads."""
    return json.dumps(asdict(traffic)) + "\n"


if __name__ == "__main__":
    main()
