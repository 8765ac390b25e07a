"""What operators may ask of a runner: commands, signals, pauses; and the heartbeat that shows it.

A thread of its own looks into the inbox and rewrites `runner.json`, so both go on while the coordinator waits for Spark. Nothing
that it meets ends it (`run.helpers`): a file that cannot be read, or that makes its reader fail, is put into `inbox/refused`.
"""

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine import clock
from engine.directory import HEARTBEAT_S, Directory
from engine.errors import Failure, SpecError, TidemarkError, is_disk_full
from engine.events import CommandDone, RunControls, RunState
from engine.journal import Journal
from engine.ledger.state import State
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.run.commands.inbox import Command, Inbox, read_command, unfit, unreadable
from engine.run.commands.overrides import Controls, load_controls, save_controls
from engine.run.disk import Disk
from engine.run.helpers import Helpers
from engine.run.state_machines import IllegalEventError, after
from engine.settings import Throttle, throttled

_INBOX_S = 0.2
_EVENT_OF = {"pause": "pause", "resume": "resume", "stop": "stop"}


class TableCommand(Protocol):
    """A command about tables that was accepted: a redump, tables to add or to remove. Its file waits until it is answered."""

    @property
    def identity(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def verb(self) -> str: ...
    def describe(self) -> str:
        """What it asks for, in words."""


T = TypeVar("T", bound=TableCommand)
Parser = Callable[[Command, State], TableCommand]
"""Judges a command by what the ledger holds. Raises SpecError."""


class Control:
    """State and heartbeat of this runner; `state` changes by commands and signals.

    Call `start` once the journal is open and `finish` at the end.
    """

    def __init__(
        self,
        directory: Directory,
        journal: Journal,
        name: str = "",
        *,
        throttle: Throttle | None = None,
        folders: Sequence[Path] = (),
        parsers: Mapping[str, Parser] | None = None,
        in_turn: Collection[str] = (),
        throttle_changed: Callable[[Throttle], None] = lambda _: None,
        retry_parked: Callable[[Iterable[str] | None], None] = lambda _: None,
    ) -> None:
        """Make the control of one run.

        name: the pipeline's.
        throttle: the spec's; operators may change it.
        folders: where the run writes beside its own directory.
        parsers: by verb, who judges commands about tables.
        in_turn: the verbs of which one is judged only when the one before it is answered.
        throttle_changed: gets the throttle that holds, now and whenever it changes.
        retry_parked: called when parked chunks of these tables (None: of all) are to be tried again.
        """
        self._directory, self._journal, self._name = directory, journal, name
        self._spec_throttle, self._parsers, self._in_turn = throttle or Throttle(), parsers or {}, in_turn
        self._throttle_changed, self._retry_parked = throttle_changed, retry_parked
        self.controls = load_controls(directory)
        throttle_changed(throttled(self._spec_throttle, self.controls.throttle))
        self.activity = Activity()
        self.disk = Disk([directory.root, *folders], journal, self._disk_full, self._disk_freed)
        self.helpers = Helpers(journal, self.disk)
        self.state = "starting"
        self.committed: Callable[[], State] | None = None
        """What the ledger holds; commands about tables wait until it is known."""
        self._inbox, self._heartbeat = Inbox(directory.inbox), Heartbeat(directory, journal.run)
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._error: Failure | None = None
        self._signal: int | None = None
        self._open: list[tuple[str, str, float]] = []
        self._accepted: list[TableCommand] = []
        self._files: dict[str, Path] = {}  # of open commands that change the state
        self._resumed: set[str] = set()
        self._listening: set[str] = set()  # listeners of the journal that failed
        self._thread = threading.Thread(target=self._attend, name="control", daemon=True)

    def start(self) -> None:
        """Begin to look into the inbox and to show the heartbeat; SIGTERM and SIGINT become a stop."""
        with self._lock:
            self._inbox.begin()
        self._show()
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
                self._journal.write(RunState(state=following, reason=reason))
                self.state = following
            self._wake.set()
        self._show()

    def _disk_full(self, reason: str) -> None:
        """Nothing is begun until there is room. The state stays what operators made it; what is shown is a pause."""
        if self.state == "running":
            self._journal.write(RunState(state="paused", reason=reason))
        self._wake.set()

    def _disk_freed(self) -> None:
        """There is room again; chunks may have been parked for the lack of it."""
        self._retry_parked(None)
        if self.state == "running":
            self._journal.write(RunState(state="running", reason="there is space on the disk again"))
        self._wake.set()

    def overloaded(self, reason: str) -> None:
        """The source is in danger: everything pauses until somebody resumes it."""
        with suppress(IllegalEventError):  # it is paused, or ends
            self.event("pause", reason)

    def pauses(self, table: str) -> bool:
        """Whether operators have paused the copy of a table."""
        return self.controls.pausing(table)

    @property
    def pending(self) -> bool:
        """Whether a command about tables is accepted and not answered."""
        return bool(self._accepted)

    def accepted(self, kind: type[T]) -> list[T]:
        """The commands of a kind that are accepted and not answered, in their order."""
        with self._lock:
            return [command for command in self._accepted if isinstance(command, kind)]

    def waiting(self) -> list[Command]:
        """The commands in the inbox, judged or not."""
        with self._lock:
            return self._inbox.commands()

    def resumed(self) -> set[str]:
        """The tables that were resumed since the last call."""
        with self._lock:
            found, self._resumed = self._resumed, set()
        return found

    def carried_out(self, command: TableCommand, result: dict[str, Any]) -> None:
        """A command about tables is done."""
        with self._lock:  # or its file, still in the inbox, is taken for another command
            took_s = self._close(command)
            self._journal.write(CommandDone(id=command.identity, verb=command.verb, duration_s=took_s, result=result))
            self._inbox.put_away(command.path, "done", command.identity)

    def refused(self, command: TableCommand, error: TidemarkError) -> None:
        """A command about tables was accepted, and cannot be carried out."""
        with self._lock:
            self._close(command)
            self._refuse(Command(command.path, command.identity, command.verb), f"{error.message} {error.hint}".strip())

    def _close(self, command: TableCommand) -> float:
        self._accepted.remove(command)
        since = next(since for identity, _, since in self._open if identity == command.identity)
        self._open = [opened for opened in self._open if opened[0] != command.identity]
        return round(clock.monotonic_s() - since, 3)

    def forget(self, table: str) -> None:
        """A table was removed: a pause of its own does not outlive it."""
        with self._lock:
            if table in self.controls.tables:
                with suppress(OSError):  # a full disk: a pause of a table that is not there harms nobody
                    self._save(self.controls.paused({"tables": [table]}, pause=False))

    def done(self, verb: str) -> None:
        """The commands of this kind that were accepted have taken effect."""
        with self._lock:
            finished = [command for command in self._open if command[1] == verb]
            self._open = [command for command in self._open if command[1] != verb]
            for identity, name, since in finished:
                took_s = round(clock.monotonic_s() - since, 3)
                self._journal.write(CommandDone(id=identity, verb=name, duration_s=took_s))
                with suppress(OSError):  # the next run refuses it
                    self._inbox.keep(self._files.pop(identity), "done", identity)

    def settle(self) -> None:
        """Nothing is paused: pauses and resumes are done, those too that were lifted before anybody saw them."""
        with self._lock:
            if self.state == "running":
                self.done("pause")
                self.done("resume")

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

    def finish(self, error: Failure | None) -> None:
        """The run has ended; says so in `runner.json`."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._error = error
        self.state = after(self.state, "end")
        self._show()

    def _attend(self) -> None:
        last = 0.0
        while not self._closing.wait(_INBOX_S):
            self._guarded("inbox", self._take)
            if clock.monotonic_s() - last >= HEARTBEAT_S:
                last = clock.monotonic_s()
                self._show()
            self._hear_journal()

    def _guarded(self, helper: str, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nothing ends this thread: commands and heartbeat hang on it
            self.helpers.failed(helper, error)
        else:
            self.helpers.fine(helper)

    def _take(self) -> None:
        if self._signal is not None and self.state not in ("stopping", "ended"):
            self.event("stop", f"signal {signal.Signals(self._signal).name}")
        self.look()

    def _show(self) -> None:
        """Rewrite `runner.json`. A full disk makes the heartbeat old, and that is said; it ends nobody."""
        self._guarded("runner.json", self._beat)

    def _hear_journal(self) -> None:
        """What the journal could not do: it cannot say so itself, as whoever writes to it may hold any lock."""
        self._journal.flush()
        failures = dict(self._journal.failures)
        self._listening |= failures.keys()
        for name in list(self._listening):
            if name in failures:
                self.helpers.failed(name, failures[name])
            else:
                self.helpers.fine(name)

    def look(self) -> None:
        """Take what is in the inbox. What cannot be read is refused; what cannot be moved now may be so next time."""
        with self._lock:
            for path in self._inbox.waiting():
                try:
                    self._take_file(path)
                except Exception as error:
                    if is_disk_full(error):
                        raise
                    self._unreadable(path, error)

    def _unreadable(self, path: Path, error: Exception) -> None:
        """Refuse a file that cannot be taken, whatever the reason, unless somebody took it away."""
        if path.exists() or path.is_symlink():
            why = f"The file cannot be taken as a command: {type(error).__name__}: {error}."
            self._refuse(unreadable(path), why)

    def _take_file(self, path: Path) -> None:
        if self._inbox.retry(path):
            return
        try:
            command = read_command(path)
        except SpecError as error:
            self._refuse(unreadable(path), error.message)
            return
        if why := unfit(command, self._inbox, self._name):
            self._refuse(command, why)
        elif parser := self._parsers.get(str(command.verb)):
            self._accept(command, parser)
        elif command.verb == "throttle" or (command.verb in ("pause", "resume") and command.arguments):
            self._set(command)
        elif why := self._not_ours(command):
            self._refuse(command, why)
        elif command.identity not in self._files:
            self._change(command)

    def _not_ours(self, command: Command) -> str:
        """Why a stop, a pause or a resume is not for this run; empty when it is. No clock decides.

        It names the run that its sender saw. One that names none, written by hand or by an earlier version, is for this run
        unless it lay in the inbox before this run could be seen.
        """
        if not command.names_run:
            return "It was sent before this run began." if self._inbox.is_older(command.path) else ""
        if command.run == self._journal.run:
            return ""
        meant = f"it is for run {command.run}" if command.run else "no run was there"
        return f"It was sent before this run began: {meant}."

    def _change(self, command: Command) -> None:
        """Change the state of this runner.

        The command's file waits in the inbox until it is done; if that is never, the next run refuses it.
        """
        identity, verb = command.identity, str(command.verb)
        if verb == "resume" and self.disk.reason and self.state == "running":
            self.disk.try_now()
            self._journal.write(command.accepted())
            self._journal.write(CommandDone(id=identity, verb=verb, duration_s=0.0))
            self._inbox.put_away(command.path, "done", identity)
            return
        try:
            after(self.state, _EVENT_OF[verb])
        except IllegalEventError as error:
            self._refuse(command, f"{error.message} {error.hint}")
            return
        self._journal.write(command.accepted())
        self._open.append((identity, verb, clock.monotonic_s()))
        self._files[identity] = command.path
        self.event(_EVENT_OF[verb], command.sender)

    def _set(self, command: Command) -> None:
        """Set what holds until it is changed again, over the end of this runner: kept first, answered then."""
        verb, arguments = str(command.verb), command.arguments
        try:
            controls = self._changed(verb, arguments)
        except SpecError as error:
            self._refuse(command, f"{error.message} {error.hint}".strip())
            return
        if controls is None:
            return
        self._save(controls)
        self._journal.write(command.accepted())
        self._throttle_changed(throttled(self._spec_throttle, controls.throttle))
        if verb == "resume":
            self._retry_parked(None if arguments.get("snapshot") else arguments["tables"])
            self._resumed.update(arguments.get("tables") or ())
        self._journal.write(CommandDone(id=command.identity, verb=verb, duration_s=0.0))
        self._inbox.put_away(command.path, "done", command.identity)

    def _save(self, controls: Controls) -> None:
        save_controls(self._directory, controls)
        self.controls = controls
        self._journal.write(RunControls(throttle=controls.throttle, snapshot=controls.snapshot, tables=controls.tables))

    def _changed(self, verb: str, arguments: Any) -> Controls | None:
        """The controls after a command; None while it cannot be judged. Raises SpecError."""
        if not isinstance(arguments, dict):
            raise SpecError("Its arguments are no object.")
        if verb == "throttle":
            changes = {} if arguments.get("reset") else {**self.controls.throttle, **arguments}
            throttled(self._spec_throttle, changes)
            return replace(self.controls, throttle=changes)
        tables = arguments.get("tables")
        if not arguments.get("snapshot") and not (tables and isinstance(tables, list)):
            raise SpecError("It does not say what to pause or resume: snapshot, or a list of tables.")
        if tables:
            if self.committed is None:
                return None
            if unknown := sorted({str(name) for name in tables} - set(self.committed().tables)):
                raise SpecError(f"The pipeline has no table {', '.join(unknown)}.")
        return self.controls.paused(arguments, pause=verb == "pause")

    def _accept(self, command: Command, parser: Parser) -> None:
        """About tables; taken whenever it was sent: it may be what heals a pipeline that cannot run otherwise."""
        identity, verb = command.identity, str(command.verb)
        if self.committed is None or identity in {known.identity for known in self._accepted}:
            return
        if verb in self._in_turn and any(known.verb in self._in_turn for known in self._accepted):
            return  # it is judged by what that one leaves
        try:
            asked = parser(command, self.committed())
        except SpecError as error:
            self._refuse(command, f"{error.message} {error.hint}".strip())
            return
        self._journal.write(command.accepted(asked.describe()))
        self._open.append((identity, verb, clock.monotonic_s()))
        self._accepted.append(asked)

    def _refuse(self, command: Command, message: str) -> None:
        self._inbox.put_away(command.path, "refused", command.identity)
        self._journal.write(command.refused(message))

    def _beat(self) -> None:
        self._heartbeat.beat(
            self.activity,
            state="paused" if self.disk.reason and self.state == "running" else self.state,
            disk_full=self.disk.reason or None,
            helpers=self.helpers.as_list(),
            controls=asdict(self.controls),
            commands=[{"id": identity, "verb": verb} for identity, verb, _ in list(self._open)],
            error=self._error,
        )
