"""Processes that run commands of the engine, one after the other.

The code is loaded once, and there is one Spark session.

A command that a test waits for, or leaves running, needs no process of its own. It goes to a process that has run
others before, through the same command line. A run finds the session of the last one there, as on a Connect server,
with readers that other pipelines have used. A run in the background has its process to itself until it ends, so signals
reach that run alone. Whatever a test kills or gives an environment gets a process and a session of its own.
"""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.spark.kinds import SessionKind
    from engine.spec.settings import Spark

ROOT = Path(__file__).parents[2]
_USES = 150
"""A process is replaced after this many commands."""


class Host:
    """One such process."""

    def __init__(self) -> None:
        self.uses = 0
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "tests.servers.hosts"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def alive(self) -> bool:
        """Whether it accepts more commands."""
        return self._process.poll() is None and self.uses < _USES

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def command(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line with these arguments. On a timeout, raises TimeoutExpired and ends the process."""
        killer = Timer(timeout_s, self._process.kill)
        killer.start()
        try:
            self.send(arguments, environment)
            answer = self.answer()
        finally:
            killer.cancel()
        if not answer:
            raise subprocess.TimeoutExpired(list(arguments), timeout_s)
        return subprocess.CompletedProcess(list(arguments), **json.loads(answer))

    def send(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path | None = None) -> None:
        """Begin the command line with these arguments. log: gets its output, instead of the answer."""
        self.uses += 1
        assert self._process.stdin
        request = {"arguments": list(arguments), "environment": dict(environment), "log": log and str(log)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Wait for the end of the command; empty when the process died."""
        assert self._process.stdout
        return self._process.stdout.readline()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def close(self) -> None:
        """End it, and its Spark with it."""
        self._process.kill()
        self._process.communicate()


class HostedRunner:
    """A command in the background of a host, with the methods of a process."""

    def __init__(self, host: Host, back: Callable[[Host], None]) -> None:
        self._host, self._back = host, back
        self._code: int | None = None
        self._waiter = threading.Thread(target=self._wait, name="hosted runner", daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        answer = self._host.answer()
        if not answer:
            self._host.close()
        self._back(self._host)
        self._code = json.loads(answer)["returncode"] if answer else -signal.SIGKILL

    @property
    def pid(self) -> int:
        """The host's process."""
        return self._host.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code. Raises TimeoutExpired."""
        self._waiter.join(timeout)
        if self._code is None:
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal while it runs."""
        if self._code is None:
            self._host.send_signal(number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process; the next command needs a new one."""
        self.send_signal(signal.SIGKILL)


class Hosts:
    """All of a test run. Threads that ask at the same time get one each."""

    def __init__(self) -> None:
        self._idle: list[Host] = []
        self._all: list[Host] = []

    def command(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """`Host.command` in an idle process."""
        host = self._take()
        try:
            return host.command(arguments, environment, timeout_s)
        finally:
            self._back(host)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> HostedRunner:
        """Begin a command in an idle process, and return at once."""
        host = self._take()
        host.send(arguments, environment, log)
        return HostedRunner(host, self._back)

    def _take(self) -> Host:
        try:
            return self._idle.pop()
        except IndexError:
            self._all.append(host := Host())
            return host

    def _back(self, host: Host) -> None:
        if host.alive:
            self._idle.append(host)
        elif host in self._all:
            self._all.remove(host)
            host.close()

    def close(self) -> None:
        """End all."""
        for host in self._all:
            host.close()
        self._all, self._idle = [], []


class _Kept:
    """The session of all runs in this process; it survives the end of a run."""

    own_python = True

    def __init__(self, kind: "SessionKind") -> None:
        self._kind, self.spark, self.ui = kind, kind.spark, kind.ui
        self.ship, self.slots, self.described = kind.ship, kind.slots, kind.described
        self.ping, self.driver_pid = kind.ping, kind.driver_pid

    def stop(self, *, lost: bool) -> None:
        if lost:
            self._kind.stop(lost=True)
            _kept.clear()


_kept: dict[str, _Kept] = {}


def _keep_session() -> None:
    """From now on keep the session, as long as the next run asks for the same one."""
    from engine.spark import session as opening

    session: Any = opening

    def kept(name: str, settings: "Spark", _: object = None) -> "SessionKind":
        key = settings.model_dump_json()
        if key not in _kept:
            for other in _kept.values():
                other._kind.stop(lost=False)
            _kept.clear()
            _kept[key] = _Kept(opened(name, settings))
        return _kept[key]

    opened = session.open_kind
    session.open_kind = kept


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """The variables of one command, in addition to those of the session."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _answer(arguments: Sequence[str], environment: Mapping[str, str], log: str | None) -> dict[str, Any]:
    if log is None:
        out, err = (io.BytesIO() for _ in range(2))
        streams = [io.TextIOWrapper(one, "utf-8", write_through=True) for one in (out, err)]
        return {
            "returncode": _code(arguments, environment, *streams),
            "stdout": out.getvalue().decode(errors="backslashreplace"),
            "stderr": err.getvalue().decode(errors="backslashreplace"),
        }
    with Path(log).open("a", buffering=1, encoding="utf-8") as file:
        return {"returncode": _code(arguments, environment, file, file)}


def _code(arguments: Sequence[str], environment: Mapping[str, str], out: IO[str], err: IO[str]) -> Any:
    from engine.__main__ import app

    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err), _environment(environment):
        try:
            app(list(arguments), prog_name="python -m engine")
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:  # noqa: BLE001 - as Python would end
            traceback.print_exc()
            code = 1
    return code


def _serve() -> None:
    """Answer requests from standard input, one JSON line each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library or a child prints is no answer
    _keep_session()
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            answers.write(json.dumps(_answer(**json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    _serve()
