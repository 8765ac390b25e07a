"""`python -m tests.tools.bench.verify --flavor mariadb`: what verification costs, on request and all the time.

First, processor seconds of the server and of all our processes: to copy a table, and to verify the unchanged table.
What the same commands take for a table of one row is subtracted, so that starts do not count. Then the transactions a
second of clients that write as fast as they can, while a pipeline of many tables streams: without continuous
verification and with it, in turn.
"""

import argparse
import json
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import mean

import psutil

from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server, start
from tests.tools.bench.load import ACCOUNT, WORK, Clients
from tests.tools.bench.measure import DATABASE
from tests.tools.bench.schemas import NARROW, fill

_WINDOW_S, _SETTLE_S = 20.0, 5.0
FAST = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0, "buffer_pool": "1G"}


class Processes(Background):
    """The processor seconds of all processes below this one, without the server's, sampled ten times a second."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server, self._seconds = server, dict[tuple[int, float], float]()

    def work(self, _number: int) -> None:
        """Sample until the end."""
        assert self._server.process is not None
        spared = self._server.process.pid
        while not self.stopping.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if process.pid != spared:
                        times = process.cpu_times()
                        self._seconds[process.pid, process.create_time()] = times.user + times.system

    @property
    def seconds(self) -> float:
        """Processor seconds since the beginning."""
        return sum(self._seconds.values())


def server_s(server: Server) -> float:
    """Processor seconds of the server so far."""
    assert server.process is not None
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def spent(server: Server, pipeline: Pipeline, *command: str) -> tuple[float, float]:
    """Processor seconds that a command takes: of the server, and of our processes."""
    before = server_s(server)
    with Processes(server) as processes:
        result = pipeline.command(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return server_s(server) - before, processes.seconds


COMMANDS = {
    "copy": ("run", "--until", "caught-up"),
    "verify": ("verify",),
    "verify --level counts": ("verify", "--level", "counts"),
}


def bench_cost(server: Server, folder: Path, rows: int) -> dict[str, tuple[float, float]]:
    """By command, the processor seconds for the rows: of the server, and of our processes."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for count in (1, rows):
        home = folder / str(count)
        home.mkdir()
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        fill(server, DATABASE, NARROW, count)
        pipeline = Pipeline(server, DATABASE, home)
        for name, command in COMMANDS.items():
            found[name].append(spent(server, pipeline, *command))
    return {name: (big[0] - one[0], big[1] - one[1]) for name, (one, big) in found.items()}


def bench_source(server: Server, folder: Path, tables: int, rounds: int) -> dict[str, list[float]]:
    """The clients' transactions a second, with continuous verification off and on."""
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.execute(f"CREATE DATABASE {DATABASE}")
    server.execute(ACCOUNT)
    server.execute(
        f"INSERT INTO {DATABASE}.account WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < "
        "999) SELECT a.i * 10 + b.i, 0 FROM n a JOIN n b ON b.i < 10"
    )
    server.execute(WORK)
    for number in range(tables):
        server.execute(f"CREATE TABLE {DATABASE}.t{number} (id INT PRIMARY KEY, note VARCHAR(100))")
        server.execute(
            f"INSERT INTO {DATABASE}.t{number} SELECT id, CONCAT('note ', id) FROM {DATABASE}.account WHERE id < 1000"
        )
    pipeline = Pipeline(server, DATABASE, folder, merge=10.0)
    pipeline.run("caught-up")
    spec, figures = pipeline.spec.read_text(), {"off": list[float](), "7d": list[float]()}
    for turn in range(2 * rounds):
        period = list(figures)[turn % 2]
        pipeline.spec.write_text(f'{spec}\n[verify]\nperiod = "{period}"\n')
        runner = pipeline.start(killed=True)
        pipeline.wait_for(partial(_runs, pipeline, turn + 2), runner)
        with Clients(server, 0.0) as clients:
            time.sleep(_SETTLE_S)
            before, began_s = clients.done, time.monotonic()
            time.sleep(_WINDOW_S)
            figures[period].append((clients.done - before) / (time.monotonic() - began_s))
        pipeline.stop(runner)
    return figures


def _runs(pipeline: Pipeline, run: int) -> bool:
    """Whether the pipeline's run of this number is running."""
    return bool(sum(event["state"] == "running" for event in pipeline.events("run.state")) >= run)


def main() -> None:
    """Measure on a private server and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.verify", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--rows", type=int, default=NARROW.rows)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, start(options.flavor, **FAST) as server:
        costs = bench_cost(server, Path(folder), options.rows)
        (Path(folder) / "many").mkdir()
        rates = bench_source(server, Path(folder) / "many", options.tables, options.rounds) if options.rounds else {}
    if options.json:
        print(json.dumps({"costs": costs, "transactions_per_s": rates}))
        return
    copied = sum(costs["copy"])
    for name, (its_s, own_s) in costs.items():
        print(f"{name}: {its_s:.2f} s of the server, {own_s:.2f} s of ours: {(its_s + own_s) / copied:.0%} of the copy")
    if rates:
        off, on = (mean(rates[period]) for period in ("off", "7d"))
        print(f"transactions a second: {off:,.0f} without, {on:,.0f} with continuous verification: {on / off:.0%}")


if __name__ == "__main__":
    main()
