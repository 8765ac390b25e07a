"""One private server: its process, its folder, and connections to it.

Its folder is in memory where there is room: a commit waits for the disk, and servers that share one wait for each other
(with six of them at work, both processors idled for two fifths of the time).

The server dies with us in every case. ``setpriv --pdeathsig`` makes the kernel kill it when the thread that started it
ends, however that happens (so start servers from the main thread); `close` and an exit handler also remove its folder,
and what a killed run left behind is swept by the next one.
"""

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pymysql

from tests.servers.binaries import Program, find
from tests.servers.datadir import certificate, copy_template
from tests.servers.options import Options, arguments, run_as
from tests.support.patience import PATIENCE_S

FOLDER_PREFIX = "tidemark-server-"
OWNER_FILE = "owner.pid"
MEMORY, ENOUGH = Path("/dev/shm"), 8 << 30  # noqa: S108 - a folder of its own is made there
_server_ids = itertools.count(1000 + os.getpid() % 1000 * 1000)


class ServerFailedError(Exception):
    """The server ended or did not answer in time; the message ends with its own error log."""


class Server:
    """A running private server on 127.0.0.1; made by `start`.

    `host`, `port`, `flavor`, `version`, `server_id`, `folder`, `data` (the data directory, binlogs in it), `options`,
    `ca_file` (to verify its certificate, `None` without TLS).
    """

    def __init__(self, program: Program, options: Options) -> None:
        """Prepare the folder; `launch` starts the process."""
        self.program, self.options = program, options
        self.host, self.port, self.server_id = "127.0.0.1", free_port(), next(_server_ids)
        self.flavor, self.version = program.flavor, program.version
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=None if options.on_disk else _place()))
        (self.folder / OWNER_FILE).write_text(str(os.getpid()))
        self.data = self.folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        copy_template(program, options, self.data)
        atexit.register(self.close)

    @property
    def ca_file(self) -> Path | None:
        """The authority of the server's certificate."""
        return certificate()[0] if self.options.tls else None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process and wait until it answers."""
        command = ["setpriv", "--pdeathsig", "KILL", "--", *self.program.command, "--no-defaults", *self._arguments()]
        log = self._log()
        with log.open("ab") as out:
            self.process = subprocess.Popen(  # a session of its own: Ctrl-C is ours to handle, in our order
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self._answers():
                return
            if self.process.poll() is not None:
                raise ServerFailedError(
                    f"{self.flavor} ended with {self.process.returncode} while starting:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(f"{self.flavor} did not answer within {PATIENCE_S} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def connect(self, **settings: Any) -> "pymysql.connections.Connection[Any]":
        """A PyMySQL connection, as root with autocommit unless `settings` say otherwise; root needs no TLS."""
        defaults: dict[str, Any] = {"host": self.host, "port": self.port, "autocommit": True, "charset": "utf8mb4"}
        if "user" not in settings:  # TLS loads the system's authorities first: 50 ms of processor time a connection
            defaults |= {"user": "root", "ssl_disabled": not any(name.startswith("ssl") for name in settings)}
        return pymysql.connect(**(defaults | settings))

    def execute(self, sql: str, args: Any = None, database: str | None = None) -> tuple[tuple[Any, ...], ...]:
        """Run one statement as root on a connection of its own; its rows, if it has any."""
        with closing(self.connect(database=database)) as connection, connection.cursor() as cursor:
            cursor.execute(sql, args)
            return tuple(cursor.fetchall())

    def purge_binlogs(self, to: str = "") -> None:
        """Delete the binlogs before a file, by default the newest.

        The server keeps files that an ending dump still reads.
        """
        files = self.execute("SHOW BINARY LOGS")
        to, deadline = to or files[-1][0], time.monotonic() + PATIENCE_S
        while files[0][0] != to:
            assert time.monotonic() < deadline, f"{files[0][0]} is still read"
            self.execute(f"PURGE BINARY LOGS TO '{to}'")
            time.sleep(0.1)
            files = self.execute("SHOW BINARY LOGS")

    def stop(self) -> None:
        """End the server in good order; the folder stays, `restart` brings it back."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash; the folder stays, `restart` brings it back."""
        self._end(signal.SIGKILL)

    def restart(self, **changes: Any) -> None:
        """Stop if it runs, then start on the same port and data, with the options that `changes` names changed."""
        self.stop()
        self.options = self.options.changed(**changes)
        self.launch()

    def close(self) -> None:
        """Kill the server and remove its folder; harmless when repeated."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def log_tail(self, lines: int = 30) -> str:
        """The end of the server's error log."""
        log = self._log()
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _log(self) -> Path:
        return self.folder / "server.log"

    def _arguments(self) -> list[str]:
        places = [f"--datadir={self.data}", f"--socket={self.folder}/socket", f"--pid-file={self.folder}/server.pid"]
        places += [f"--tmpdir={self.folder}", f"--port={self.port}", f"--bind-address={self.host}"]
        if self.options.tls:
            cert, key = certificate()
            places += [f"--ssl-ca={cert}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
        return [*self.program.arguments, *places, *run_as(), *arguments(self.options, self.server_id)]

    def _answers(self) -> bool:
        try:
            self.connect(connect_timeout=2).close()
        except pymysql.err.OperationalError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process = self.process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.process = None


def start(flavor: str, **options: Any) -> Server:
    """Start a private server: `flavor` is "mysql" or "mariadb"; keywords as `Options.of` takes them."""
    _sweep()
    wanted = Options.of(flavor, **options)
    server = Server(find(flavor, wanted.release), wanted)
    try:
        server.launch()
    except BaseException:
        server.close()
        raise
    return server


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _place() -> Path:
    """Where folders of servers are: in memory when that has room for many, else where temporary files are."""
    room = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) if MEMORY.is_dir() else 0
    return MEMORY if room > ENOUGH else Path(tempfile.gettempdir())


def _sweep() -> None:
    """Remove folders whose owner is gone (a killed test run)."""
    places = {Path(tempfile.gettempdir()), MEMORY}
    for owner in (owner for place in places for owner in place.glob(f"{FOLDER_PREFIX}*/{OWNER_FILE}")):
        with suppress(OSError, ValueError):
            if not Path(f"/proc/{int(owner.read_text())}").exists():
                shutil.rmtree(owner.parent, ignore_errors=True)
