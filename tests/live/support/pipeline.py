"""A pipeline under test: its spec, and the engine run through its command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.live.support.binlog_end import BinlogEnd
from tests.servers import PASSWORD, USER, Server
from tests.servers.apart import apart_from
from tests.servers.drivers import Driver, Drivers
from tests.servers.hosts import HostedRunner, Hosts
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
SPEC = """
name = "shop"
poll_interval_s = {poll}
{epochs}
[source]
host = "{host}"
port = {port}
user = "{user}"
password_env = "TIDEMARK_TEST_PASSWORD"
tables = {tables}
settle_s = 1.0
{source}
[snapshot]
chunk_rows = {chunk_rows}
{snapshot}
[sink]
path = "lake"
merge_interval_s = {merge}
{kind}
{sink}
[spark]
{spark}
"""


Runner = subprocess.Popen[bytes] | HostedRunner
"""A runner in the background."""


@dataclass
class _Journal:
    """The parsed events of one journal file, and the offset up to which it was read."""

    events: list[dict[str, Any]] = field(default_factory=list)
    read_to: int = 0


class Pipeline:
    """One pipeline in a folder of its own; `run` waits for a run, `start` leaves it running."""

    def __init__(
        self,
        server: Server,
        database: str,
        folder: Path,
        *,
        chunk_rows: int = 0,
        tables: list[str] | None = None,
        user: str = USER,
        poll: float = 0.5,
        epochs: str = "",
        merge: float = 5.0,
        kind: str = "delta",
        mirror: str = "",
        amplification: float = 0,
        sink: str = "",
        slots: int = 2,
        spark: str = "",
        source: str = "",
        snapshot: str = "",
        more: str = "",
        environment: Mapping[str, str] | None = None,
        drivers: Drivers | None = None,
        hosts: Hosts | None = None,
        hidden: Sequence[Path] = (),
    ) -> None:
        """epochs: a line of the spec, for the longest time between two.

        kind: of the destination. mirror: by default, MySQL's are merged on write and MariaDB's on read.

        amplification: 0 puts no merge off.

        environment: additional variables for the runners. drivers: for the local sessions of background runners.

        hosts: for commands that a test waits for. hidden: folders that runners in the background see empty.
        """
        self.server, self.database, self.folder = server, database, folder
        mode = mirror or ("copy_on_write" if server.flavor == "mysql" else "merge_on_read")
        mirrors = f'mirror = "{mode}"\nmax_write_amplification = {amplification}'
        self.spec = folder / "shop.toml"
        self.spec.write_text(
            SPEC.format(
                host=server.host,
                port=server.port,
                user=user,
                tables=json.dumps(tables or [f"{database}.*"]),
                chunk_rows=chunk_rows,
                poll=poll,
                epochs=epochs,
                merge=merge,
                sink=sink,
                kind=f'type = "{kind}"\n' + (mirrors if kind == "delta" else ""),
                spark=spark or f'master = "local[{slots}]"',
                source=source,
                snapshot=snapshot,
            )
            + more
        )
        self.home = folder / "shop"
        self._environment = {**os.environ, "TIDEMARK_TEST_PASSWORD": PASSWORD, **(environment or {})}
        self._hosts = None if environment else hosts
        self._log = folder / "output.log"
        self._apart = apart_from(hidden)
        self._runners: list[tuple[Runner, Driver | None]] = []
        self._drivers = None if spark else drivers
        self._epochs: dict[str, dict[str, Any]] = {}
        self._journals: dict[str, _Journal] = {}
        self._reading = threading.Lock()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its runners."""
        return self._environment

    def command(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end and capture its output."""
        hosted = self._hosts if self._drivers or verb != "run" else None
        if hosted is not None:
            return hosted.command([verb, str(self.spec), *arguments], self._environment, 280)
        driver = self._driver() if verb == "run" else None
        try:
            return subprocess.run(
                [sys.executable, "-m", "engine", verb, str(self.spec), *arguments],
                cwd=ROOT,
                env=self._environment | (driver.environment if driver else {}),
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        finally:
            self._back(driver)

    def run(self, until: str) -> None:
        """Run `run --until`; fails with the runner's output unless the exit code is 0."""
        result = self.command("run", "--until", until)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-5000:]

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None, killed: bool = False) -> Runner:
        """Start a runner and return at once.

        environment: additional variables; a recorded runner gets a JVM of its own. killed: the test kills it, so it
        gets a process of its own.
        """
        if self._hosts and self._drivers and environment is None and not killed:
            hosted = self._hosts.start(["run", str(self.spec), *arguments], self._environment, self._log)
            self._runners.append((hosted, None))
            return hosted
        recorded = environment is not None and "POWERCUT_RECORD" in environment
        driver = None if recorded else self._driver()
        with self._log.open("ab") as log:
            runner = subprocess.Popen(
                [*self._apart, sys.executable, "-m", "engine", "run", str(self.spec), *arguments],
                cwd=ROOT,
                env=self._environment | (driver.environment if driver else {}) | dict(environment or {}),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._runners.append((runner, driver))
        return runner

    def _driver(self) -> Driver | None:
        self._give_back()
        return self._drivers.lend() if self._drivers else None

    def _give_back(self) -> None:
        """Return the drivers of runners that have ended."""
        for runner, driver in [pair for pair in self._runners if pair[0].poll() is not None]:
            self._runners.remove((runner, driver))
            self._back(driver)

    def _back(self, driver: Driver | None) -> None:
        if driver and self._drivers:
            self._drivers.back(driver)

    def start_streaming(self, *, killed: bool = False) -> Runner:
        """Start a runner and wait until all tables stream. killed: as for `start`."""
        runner = self.start(killed=killed)
        self.wait_for(lambda: any(e["state"] == "streaming" for e in self.events("table.state")), runner)
        return runner

    @property
    def output(self) -> str:
        """What the runners of `start` and their Spark printed."""
        return self._log.read_text()

    def kill(self) -> None:
        """End the runners that a test left behind: those in a kept process by a stop, if they obey."""
        for runner, _ in self._runners:
            if isinstance(runner, HostedRunner):
                runner.terminate()
                with suppress(subprocess.TimeoutExpired):
                    runner.wait(30)
            runner.kill()
            runner.wait()
        self._give_back()

    def stop(self, runner: Runner) -> None:
        """Stop a runner by SIGTERM; fails unless the exit code is 0."""
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(timeout=PATIENCE_S) == 0, self._log.read_text()[-5000:]

    def finish(self, runner: Runner) -> None:
        """Wait until everything in the source's binlog is committed, then stop. There must be no writers left."""
        end = BinlogEnd.now(self.server)
        self.wait_for(lambda: any(map(end.is_reached, self.events("source.lag"))), runner)
        self.stop(runner)

    def status(self) -> dict[str, Any]:
        """`status --json`."""
        result = self.command("status", "--json")
        assert result.returncode == 0, result.stdout + result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The journal of all runs, oldest first; if kinds are named, only events of these kinds.

        An incomplete last line is left for the next call. Parsed events are kept, because tests ask ten times per
        second.
        """
        with self._reading:
            for path in (self.home / "journal").glob("*.jsonl"):
                known = self._journals.setdefault(path.name, _Journal())
                with path.open("rb") as file:
                    file.seek(known.read_to)
                    lines = file.read()
                whole = lines[: lines.rfind(b"\n") + 1]
                known.events += [json.loads(line) for line in whole.splitlines()]
                known.read_to += len(whole)
            everything = chain.from_iterable(self._journals[name].events for name in sorted(self._journals))
            return [event for event in everything if not kinds or event["event"] in kinds]

    def epochs(self) -> list[dict[str, Any]]:
        """The ledger's epoch records in order, including those that were pruned since an earlier call."""
        for path in sorted((self.home / "ledger").glob("epoch-*.json")):
            if path.name not in self._epochs:
                with suppress(FileNotFoundError):  # it was pruned just now
                    self._epochs[path.name] = json.loads(path.read_text())
        return [self._epochs[name] for name in sorted(self._epochs)]

    def wait_for(self, found: Callable[[], Any], runner: Runner, timeout_s: float = PATIENCE_S) -> None:
        """Wait until `found` returns true; fails if the runner ends."""
        deadline = time.monotonic() + timeout_s
        while not found():
            assert runner.poll() is None, self._log.read_text()[-5000:]
            assert time.monotonic() < deadline, f"nothing came in {timeout_s} s\n" + self._log.read_text()[-3000:]
            time.sleep(0.1)

    def mirror(self, table: str) -> Path:
        """The folder of a mirror."""
        return self.folder / "lake" / self.database / table

    def changes(self, table: str) -> Path:
        """The folder of a change log."""
        return self.folder / "lake" / self.database / f"{table}__changes"

    def snapshot(self, table: str, kept: Path | None = None) -> pa.Table:
        """The rows of all committed chunks, from the files that the ledger names.

        kept: has those that the mirror lacks.
        """
        name = f"{self.database}.{table}"
        chunks = [c for e in self.epochs() for c in e["tables"].get(name, {}).get("chunks", [])]
        files = [self.mirror(table) / file["name"] for chunk in chunks for file in chunk["files"]]
        numbers = [chunk["chunk"] for chunk in chunks]
        assert len(numbers) == len(set(numbers)), "a chunk was committed twice"
        found = (file if file.exists() or kept is None else kept / file.name for file in files)
        return pa.concat_tables(pq.read_table(file, partitioning=None) for file in found)
