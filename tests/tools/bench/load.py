"""`python -m tests.tools.bench.load --flavor mysql`: what a snapshot costs a busy source, with `max_load` and without.

Clients write at a constant rate below the server's maximum, while a pipeline copies a large table and streams their
changes. For some seconds each, the copy is paused and held by `max_load` in turn, so that other load on the machine
affects both alike; at the end it runs without a limit. Read the ratios: the clients' rate beside the copy, to their
rate without it.
"""

import argparse
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import mean
from typing import Any

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server, start
from tests.tools.bench.measure import DATABASE
from tests.tools.bench.schemas import SCHEMAS, fill

CLIENTS, A_CALL = 4, 50
_SETTLE_S, _WINDOW_S, _CALIBRATE_S = 3.0, 6.0, 5.0
ACCOUNT = f"CREATE TABLE {DATABASE}.account (id INT PRIMARY KEY, v INT)"
WORK = f"""
CREATE PROCEDURE {DATABASE}.work(IN first INT, IN changes INT)
BEGIN
  DECLARE n INT DEFAULT 0;
  WHILE n < changes DO
    UPDATE {DATABASE}.account SET v = v + 1 WHERE id = (first + n * 7919) MOD 10000;
    SET n = n + 1;
  END WHILE;
END"""
Modes = dict[str, tuple[tuple[str, dict[str, Any]], ...]]


def modes(limit: int) -> Modes:
    """The commands of each mode: the copy paused, limited, and free."""
    return {
        "paused": (("pause", {"snapshot": True}),),
        f"max_load Threads_running={limit}": (
            ("throttle", {"max_load": {"Threads_running": limit}}),
            ("resume", {"snapshot": True}),
        ),
        "no limit": (("throttle", {"reset": True}), ("resume", {"snapshot": True})),
    }


class Clients(Background):
    """Each runs calls of `A_CALL` transactions.

    rate: transactions per second of all clients; 0: as many as possible.
    """

    def __init__(self, server: Server, rate: float) -> None:
        super().__init__(threads=CLIENTS)
        self._server, self._pause_s = server, CLIENTS * A_CALL / rate if rate else 0.0
        self._calls = [0] * CLIENTS

    @property
    def done(self) -> int:
        """Transactions so far."""
        return sum(self._calls) * A_CALL

    def work(self, number: int) -> None:
        """Calls at constant intervals; late calls are not made up for."""
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            due = time.monotonic() + number * self._pause_s / CLIENTS
            while not self.stopping.wait(max(0.0, due - time.monotonic())):
                cursor.execute(f"CALL {DATABASE}.work(%s, %s)", (self._calls[number] * 104_729 + number, A_CALL))
                self._calls[number] += 1
                due = max(due + self._pause_s, time.monotonic())


def bench_load(server: Server, pipeline: Pipeline, ways: Modes, rounds: int, share: float) -> dict[str, Any]:
    """By mode, the clients' transactions per second in each round, and rows read per second.

    Also how often each reason was shown.
    """
    with Clients(server, 0.0) as clients:
        time.sleep(_CALIBRATE_S)
        most = clients.done / _CALIBRATE_S
    home = Directory(pipeline.home)
    send_command(home, "pause", arguments={"snapshot": True})
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(e["state"] == "running" for e in pipeline.events("run.state")), runner)
    figures: dict[str, Any] = {mode: {"transactions": [], "rows": [], "waited": []} for mode in ways}
    with Clients(server, most * share) as clients:
        without, limited, free = ways
        for turn in range(rounds + 1):
            measured = {}
            # The order alternates. The free copy comes once, at the end, because the table must last until then.
            for mode in [free] if turn == rounds else [without, limited][:: 1 if turn % 2 else -1]:
                for verb, arguments in ways[mode]:
                    send_command(home, verb, arguments=arguments)
                time.sleep(_SETTLE_S)
                measured[mode] = _measure(pipeline, home, clients)
            if _copied(pipeline):  # the last round is incomplete
                break
            for mode, result in measured.items():
                for name, values in result.items():
                    figures[mode][name] += values
    runner.kill()
    assert figures["paused"]["rows"], "the table was copied in the first round: give it more --rows"
    return {"alone": most, "asked": most * share, **figures}


def _copied(pipeline: Pipeline) -> bool:
    table = f"{DATABASE}.{SCHEMAS['narrow'].table}"
    return any(e["state"] == "streaming" and e["table"] == table for e in pipeline.events("table.state"))


def _measure(pipeline: Pipeline, home: Directory, clients: Clients) -> dict[str, list[Any]]:
    before, rows, began, waited = clients.done, _rows(pipeline), time.monotonic(), []
    while time.monotonic() < began + _WINDOW_S:
        time.sleep(0.5)
        waiting = json.loads(home.runner.read_text(encoding="utf-8"))["waiting_for"]
        waited.append(waiting.partition(" is ")[0])
    took_s = time.monotonic() - began
    transactions = (clients.done - before) / took_s
    return {"transactions": [transactions], "rows": [(_rows(pipeline) - rows) / took_s], "waited": waited}


def _rows(pipeline: Pipeline) -> int:
    return sum(int(event["rows"]) for event in pipeline.events("chunk.finished"))


def main() -> None:
    """Measure on a private server and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.load", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--share", type=float, default=0.5, help="of what the server can do alone, asked of it all the time"
    )
    parser.add_argument("--limit", type=int, default=4, help="Threads_running at which no chunk is begun")
    options = parser.parse_args()
    fast = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0, "buffer_pool": "1G"}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, start(options.flavor, **fast) as server:
        table = f"{DATABASE}.{SCHEMAS['narrow'].table}"
        server.execute(f"CREATE DATABASE {DATABASE}")
        fill(server, DATABASE, SCHEMAS["narrow"], options.rows)
        server.execute(ACCOUNT)
        server.execute(f"INSERT INTO {DATABASE}.account SELECT id - 1, 0 FROM {table} WHERE id <= 10000")
        server.execute(WORK)
        pipeline = Pipeline(server, DATABASE, Path(folder), poll=1.0)
        try:
            _print(options.flavor, bench_load(server, pipeline, modes(options.limit), options.rounds, options.share))
        finally:
            pipeline.kill()


def _print(flavor: str, figures: dict[str, Any]) -> None:
    asked, alone = figures.pop("asked"), figures.pop("alone")
    rounds = len(figures["paused"]["rows"])
    print(
        f"{flavor}, {rounds} rounds: {asked:,.0f} transactions a second asked for, "
        f"of {alone:,.0f} that the server did alone"
    )
    usual = mean(figures["paused"]["transactions"])
    for mode, result in figures.items():
        if not result["rows"]:
            continue
        done, waited = mean(result["transactions"]), [reason for reason in result["waited"] if reason]
        reasons = (
            f", waiting in {len(waited) / len(result['waited']):.0%} of the time: {', '.join(sorted(set(waited)))}"
        )
        print(
            f"  copy {mode:<28} {done:>8,.0f} transactions/s ({done / usual:.3f} of paused; each round "
            f"{min(result['transactions']):,.0f}–{max(result['transactions']):,.0f}), {mean(result['rows']):>9,.0f} "
            "rows/s" + (reasons if waited else "")
        )


if __name__ == "__main__":
    main()
