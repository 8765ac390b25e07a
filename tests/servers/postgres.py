"""A PostgreSQL of the tests on this machine, with data of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.server import free_port
from tests.support.patience import PATIENCE_S

_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
"""It refuses to run as root; in a namespace of its own, root has another number."""


def programs() -> Path | None:
    """The folder of its programs, of the newest version; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return found[-1] if found else None


class Postgres:
    """A server that can be stopped, killed, frozen and started again, on the same port with the same data."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        if found is None:
            raise RuntimeError("PostgreSQL is not installed: make setup")
        self._programs = found
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        options = ["-A", "trust", "-U", "tidemark", "-N", "--no-locale", "-E", "UTF8"]
        done = subprocess.run(
            [*self._as_user, str(found / "initdb"), "-D", str(folder / "data"), *options],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"The data of PostgreSQL cannot be made: {done.stderr[-2000:]}")

    @property
    def _as_user(self) -> list[str]:
        return list(_NOBODY) if os.geteuid() == 0 else []

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        place = ["-D", str(self._folder / "data"), "-p", str(self.port), "-h", "127.0.0.1", "-k", ""]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user, str(self._programs / "postgres"), *place, *options],
                stdout=log, stderr=log, cwd=self._folder,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection of the superuser, which commits each statement."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="tidemark", dbname="postgres", connect_timeout=5, autocommit=True
        )

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self.connect() as connection:
            return connection.execute(statement.encode()).fetchall()

    def run(self, *statements: str) -> None:
        """Run statements."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def stop(self, number: int = signal.SIGINT) -> None:
        """End it: at once, but in order; by SIGKILL as in a power cut."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
            self._process = None

    def freeze(self, *, goes_on: bool = False) -> None:
        """Stop or continue all of its processes."""
        main = int((self._folder / "data/postmaster.pid").read_text().split()[0])
        number = signal.SIGCONT if goes_on else signal.SIGSTOP
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for process in (main, *map(int, children)):
            os.kill(process, number)


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A running server; stopped at the end."""
    server = Postgres(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
