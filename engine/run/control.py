"""What the outside world may ask of a runner, and what it sees of it: lock, signals, inbox, heartbeat.

A thread of its own looks into the inbox and rewrites `runner.json`, so both go on while the coordinator waits for Spark.
"""

import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import clock
from engine.directory import HEARTBEAT_S, VERBS, Directory, write_atomically
from engine.errors import PipelineHeldError
from engine.events import Journal
from engine.run.machine import IllegalEventError, after

_INBOX_S = 0.2
_EVENT_OF = {"pause": "pause", "resume": "resume", "stop": "stop"}


@dataclass(frozen=True)
class Redump:
    """A wish to copy tables again, all of them when none is named. Its file stays until an epoch has begun it."""

    identity: str
    tables: tuple[str, ...]
    path: Path


@contextmanager
def held(directory: Directory) -> Iterator[None]:
    """Hold the pipeline's lock. Raises PipelineHeldError when another process on this machine has it."""
    directory.root.mkdir(parents=True, exist_ok=True)
    with directory.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineHeldError(
                f"Another runner holds the pipeline in {directory.root}.",
                detail="It goes on undisturbed; this one did nothing.",
                hint="`status` shows it; `stop` ends it.",
            ) from None
        yield


class Control:
    """State, phase and heartbeat of this runner; `state` changes by commands and signals.

    Call `start` once the journal is open and `finish` at the end.
    """

    def __init__(self, directory: Directory, journal: Journal) -> None:
        self._directory, self._journal = directory, journal
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self.state, self.phase, self.spark_ui = "starting", "starting", None
        self.tables: frozenset[str] | None = None  # that the pipeline has; commands about tables wait until it is known
        self._error: dict[str, str] | None = None
        self._signal: int | None = None
        self._started = clock.utc_text()
        self._open: list[tuple[str, str, float]] = []
        self._redumps: list[Redump] = []
        self._thread = threading.Thread(target=self._attend, name="control", daemon=True)

    def start(self) -> None:
        """Begin to look into the inbox and to show the heartbeat; SIGTERM and SIGINT become a stop."""
        self._beat()
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, _: Any) -> None:
        """Only takes note: it runs in the midst of whatever the main thread does, which may hold any lock."""
        if self._signal is not None:
            os._exit(128 + number)  # a second signal: at once; the ledger makes that harmless
        self._signal = number

    def event(self, event: str, reason: str = "") -> None:
        """Change the state. Raises IllegalEventError for an event that the state does not allow."""
        with self._lock:
            following = after(self.state, event)
            if following != self.state:
                self.state = following
                self._journal.write("run.state", state=following, reason=reason)
            self._wake.set()
        self._beat()

    def redumps(self) -> list[Redump]:
        """The wishes to copy tables again that wait."""
        with self._lock:
            return list(self._redumps)

    def redumped(self, begun: Sequence[Redump]) -> None:
        """These were begun by an epoch that is committed."""
        for redump in begun:
            redump.path.unlink(missing_ok=True)
            with self._lock:
                self._redumps.remove(redump)
                since = next(since for identity, _, since in self._open if identity == redump.identity)
                self._open = [command for command in self._open if command[0] != redump.identity]
            took_s = round(clock.monotonic_s() - since, 3)
            self._journal.write("command.done", id=redump.identity, verb="redump", duration_s=took_s)

    def done(self, verb: str) -> None:
        """The commands of this kind that were accepted have taken effect."""
        with self._lock:
            finished = [command for command in self._open if command[1] == verb]
            self._open = [command for command in self._open if command[1] != verb]
        for identity, name, since in finished:
            self._journal.write(
                "command.done", id=identity, verb=name, duration_s=round(clock.monotonic_s() - since, 3)
            )

    def wait(self, seconds: float) -> None:
        """Sleep, but not through a change of state."""
        self._wake.wait(seconds)
        self._wake.clear()

    @property
    def stopping(self) -> bool:
        return self.state == "stopping"

    @property
    def paused(self) -> bool:
        return self.state == "paused"

    def finish(self, error: dict[str, str] | None) -> None:
        """The run has ended; says so in `runner.json`."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._error = error
        self.state = after(self.state, "end")
        self._beat()

    def _attend(self) -> None:
        last = 0.0
        while not self._closing.wait(_INBOX_S):
            if self._signal is not None and self.state not in ("stopping", "ended"):
                self.event("stop", f"signal {signal.Signals(self._signal).name}")
            self.look()
            if clock.monotonic_s() - last >= HEARTBEAT_S:
                last = clock.monotonic_s()
                with suppress(OSError):  # a full disk: the heartbeat gets old, and that is said
                    self._beat()

    def look(self) -> None:
        """Take what is in the inbox."""
        with self._lock:
            for path in sorted(self._directory.inbox.glob("*.json")):
                with suppress(OSError):  # a file that cannot be read or moved now may be so next time
                    self._command(path)

    def _command(self, path: Path) -> None:
        try:
            command = json.loads(path.read_text(encoding="utf-8"))
            identity, verb = str(command["id"]), str(command["verb"])
            told = {"id": identity, "verb": verb, "actor": command.get("actor"), "reason": command.get("reason")}
        except (ValueError, KeyError, TypeError) as error:
            told = {"id": path.stem, "verb": None, "actor": None, "reason": None}
            self._refuse(path, told, f"The file is not a command: {error!r}.")
            return
        if verb not in VERBS:
            self._refuse(path, told, f"There is no command {verb!r}; there are {', '.join(VERBS)}.")
            return
        if verb == "redump":
            self._redump(path, told, command.get("arguments"))
            return
        if str(command.get("sent", "")) < self._started:
            self._refuse(path, told, "It was sent before this run began.")
            return
        with self._lock:
            try:
                after(self.state, _EVENT_OF[verb])
            except IllegalEventError as error:
                self._refuse(path, told, f"{error.message} {error.hint}")
                return
            self._journal.write("command.accepted", **told)
            self._open.append((identity, verb, clock.monotonic_s()))
            path.unlink()
            self.event(_EVENT_OF[verb], f"{told['actor']}: {told['reason']}" if told["reason"] else str(told["actor"]))

    def _redump(self, path: Path, told: dict[str, Any], arguments: Any) -> None:
        """Taken whenever it was sent: it may be what heals a pipeline that cannot run otherwise."""
        tables = arguments.get("tables") if isinstance(arguments, dict) else None
        known = self.tables
        if not isinstance(tables, list) or not all(isinstance(name, str) for name in tables):
            self._refuse(path, told, "It does not say which tables: a list of full names, empty for all.")
        elif known is not None and (unknown := sorted(set(tables) - known)):
            self._refuse(path, told, f"The pipeline has no table {', '.join(unknown)}.")
        elif known is not None and told["id"] not in {redump.identity for redump in self._redumps}:
            with self._lock:
                self._journal.write("command.accepted", **told)
                self._open.append((str(told["id"]), "redump", clock.monotonic_s()))
                self._redumps.append(Redump(str(told["id"]), tuple(tables), path))

    def _refuse(self, path: Path, told: dict[str, Any], message: str) -> None:
        refused = self._directory.inbox / "refused"
        refused.mkdir(exist_ok=True)
        path.replace(refused / path.name)
        self._journal.write("command.refused", **told, message=message)

    def _beat(self) -> None:
        record = {
            "run": self._journal.run,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "state": self.state,
            "phase": self.phase,
            "heartbeat": clock.utc_text(),
            "started": self._started,
            "spark_ui": self.spark_ui,
            "error": self._error,
        }
        write_atomically(self._directory.runner, json.dumps(record, indent=1))
