"""A steady load of random transactions on one table, written by a process of its own.

    with Workload(server, "shop", "orders", seed=1, rate=700) as load:
        ...
    assert load.committed > 20_000

A process and not a thread: Spark, the engine and the test share this process's cores and its interpreter lock, and the
load must not slow down when they are busy.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from tests.live.support.traffic import Traffic, encode
from tests.servers import Server
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]


class WorkloadError(Exception):
    """The load could not be written: the message is the server's."""


class Workload:
    """Random transactions (`transactions.Transactions`) on a table made by `seed.seed_table`.

    `seed` makes the choice of transactions reproducible (their interleaving is not); `rate` is in transactions a
    second, `None` for as many as possible; `connections` write at the same time. A killed server is waited for.
    """

    def __init__(
        self, server: Server, database: str, table: str, seed: int, rate: float | None = 700.0, connections: int = 4
    ) -> None:
        """Nothing is written before `start`."""
        self._traffic = Traffic(server.host, server.port, database, table, seed, rate or 0.0, connections)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._failures: list[str] = []
        self._started_s = self._ended_s = 0.0
        self.counts: dict[str, int] = {}

    @property
    def committed(self) -> int:
        """Transactions that committed a change so far (as of the last fifth of a second)."""
        return self.counts.get("committed", 0)

    @property
    def per_second(self) -> float:
        """Committed transactions a second, from `start` to `stop` or now."""
        return self.committed / ((self._ended_s or time.monotonic()) - self._started_s)

    def start(self) -> Self:
        """Begin writing; returns when the first transactions are committed."""
        command = [sys.executable, "-m", "tests.live.support.traffic"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(encode(self._traffic))
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._started_s, deadline = time.monotonic(), time.monotonic() + PATIENCE_S
        while not self.committed and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if not self.committed:
            self.stop()
            raise WorkloadError("no transaction was committed")
        return self

    def stop(self) -> dict[str, int]:
        """End after the transactions under way; the final counts. Raises WorkloadError if writing failed."""
        process, self._process = self._process, None
        if process is not None and self._reader is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._failures.append("the writing process did not end in time")
            self._reader.join()
            process.stdout.close()
            self._ended_s = time.monotonic()
        if self._failures:
            raise WorkloadError("; ".join(self._failures))
        return self.counts

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            report = json.loads(line)
            self.counts, self._failures = report["counts"], report["failures"]
