"""Operator control of a runner: commands, signals, pauses, and the heartbeat, in a thread that never waits for Spark.

No error ends the thread (`pipeline.helpers`): a file that cannot be read, or that makes its parser fail, goes to
`inbox/refused`.
"""

import signal
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from engine.base import clock
from engine.base.errors import Failure, SpecError, TidemarkError
from engine.base.log_rotation import rotate
from engine.base.wording import sentences
from engine.journal import Journal
from engine.journal.events import CommandDone, RunEnded, RunState
from engine.journal.expiry import expire_and_compress
from engine.ledger.state import State
from engine.pipeline.command_queue import GONE, claim_for_run
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.pipeline.inbox_access import require_writable
from engine.pipeline.runner_file import HEARTBEAT_S
from engine.pipeline.state_machines import IllegalEventError, after
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.run.commands.inbox import Command, Inbox, read_command, unfit, unreadable
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.resumption import Resumption, to_resume
from engine.run.commands.second_signal import LEAVE_S, leave
from engine.run.commands.table_command import Parser, TableCommand
from engine.run.source_loss.outage import OutageTracker
from engine.spec.throttle_settings import Throttle

_INBOX_S = 0.2
_EXPIRE_S = 3600.0
T = TypeVar("T", bound=TableCommand)
_EVENT_OF = {"pause": "pause", "resume": "resume", "stop": "stop"}


class Control:
    """The state and heartbeat of this runner; commands and signals change `state`.

    Call `start` once the journal is open, and `finish` at the end.
    """

    def __init__(
        self,
        directory: Directory,
        journal: Journal,
        name: str = "",
        *,
        throttle: Throttle | None = None,
        journal_retention_s: float | None = None,
        folders: Sequence[Path] = (),
        parsers: Mapping[str, Parser] | None = None,
        in_turn: Collection[str] = (),
        throttle_changed: Callable[[Throttle], None] = lambda _: None,
        retry_parked: Callable[[Iterable[str] | None], None] = lambda _: None,
        chores: Mapping[str, Callable[[], object]] | None = None,
        restarted: Collection[str] = (),
    ) -> None:
        """Create the control of one run.

        name: the pipeline's name.
        throttle: the spec's throttle; operators may override it.
        journal_retention_s: the age after which journals are deleted; None: never.
        folders: where the run writes besides its own directory.
        parsers: parsers of table commands, by verb.
        in_turn: verbs whose commands are parsed only after the previous one is answered.
        throttle_changed: receives the effective throttle, now and on each change.
        retry_parked: called to retry the parked chunks of tables (None: of all).
        chores: called with each heartbeat, by the name under which a failure is reported.
        restarted: lost runs that a watchdog continues with this one; a stop for one of them is for this run.
        """
        self._directory = directory
        self._journal = journal
        self._name = name
        self._parsers = parsers or {}
        self._in_turn = in_turn
        self._retry_parked = retry_parked
        self._restarted = restarted
        self._chores: dict[str, Callable[[], object]] = {
            "runner.log": partial(rotate, directory.log),
            "journal retention": self._expire,
            **(chores or {}),
        }
        self._retention_s = journal_retention_s
        self._expire_s = 0.0
        self.settings = OperatorSettings(directory, journal, throttle or Throttle(), throttle_changed)
        self.activity = Activity()
        self.disk = Disk([directory.root, *folders], journal, self._disk_full, self._disk_freed)
        self.helpers = Helpers(journal, self.disk)
        self.state = "starting"
        self.committed: Callable[[], State] | None = None
        """The committed state; table commands wait until it is set."""
        self.source: OutageTracker | None = None
        """What is known of the source's outages, once the run has a tracker."""
        self._shown_away: dict[str, Any] | None = None
        self._inbox = Inbox(directory.inbox)
        self._heartbeat = Heartbeat(directory, journal.run)
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._error: Failure | None = None
        self._reason = ""
        self._stop = False
        self._signal: int | None = None
        self._open: list[tuple[str, str, float]] = []
        self._accepted: list[TableCommand] = []
        self._files: dict[str, Path] = {}  # files of open pause, resume and stop commands
        self._listening: set[str] = set()  # journal listeners that failed
        self._thread = threading.Thread(target=self._loop, name="control", daemon=True)

    def start(self) -> None:
        """Start to poll the inbox and write the heartbeat; SIGTERM and SIGINT become a stop."""
        with self._lock:
            self._inbox.begin()
        self._show()
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, _: Any) -> None:
        """Only record the signal: the main thread may hold any lock when this runs."""
        if self._signal is not None:
            leave(128 + number, partial(self._left, 128 + number))
        self._signal = number

    def _left(self, code: int) -> None:
        self._closing.set()
        self._thread.join(LEAVE_S / 2)
        self._journal.write(RunEnded(outcome="stopped", exit_code=code))
        self._journal.flush()
        self.state = "ended"
        self._beat()

    def event(self, event: str, reason: str = "") -> None:
        """Apply an event to the state. Raises IllegalEventError if the state does not allow it."""
        with self._lock:
            following = after(self.state, event)
            if following != self.state:
                self._journal.write(RunState(state=following, reason=reason))
                self.state = following
                self._reason = reason
                self._stop |= event == "stop"
            self._wake.set()
        self._show()

    def _disk_full(self, reason: str) -> None:
        """Show a pause until there is room. `state` itself stays as operators set it."""
        if self.state == "running":
            self._journal.write(RunState(state="paused", reason=reason))
        self._wake.set()

    def _disk_freed(self) -> None:
        """End the pause; also retry parked chunks, which may have failed for lack of room."""
        self._retry_parked(None)
        if self.state == "running":
            self._journal.write(RunState(state="running", reason="there is space on the disk again"))
        self._wake.set()

    def overloaded(self, reason: str) -> None:
        """Pause everything, until an operator resumes it, because the source is overloaded."""
        with suppress(IllegalEventError):  # already paused, or ending
            self.event("pause", reason)

    def pauses(self, table: str) -> bool:
        """Whether operators have paused the copy of a table."""
        return self.settings.controls.pausing(table)

    @property
    def pending(self) -> bool:
        """Whether an accepted table command has no answer yet."""
        return bool(self._accepted)

    def accepted(self, kind: type[T]) -> list[T]:
        """The accepted commands of a kind without an answer, in order."""
        with self._lock:
            return [command for command in self._accepted if isinstance(command, kind)]

    def waiting(self) -> list[Command]:
        """The commands in the inbox, accepted or not."""
        with self._lock:
            return self._inbox.commands()

    def carried_out(self, command: TableCommand, result: dict[str, Any]) -> None:
        """Answer a table command as done."""
        with self._lock:  # else the inbox thread takes its file for a new command
            took_s = self._close(command)
            self._journal.write(CommandDone(id=command.identity, verb=command.verb, duration_s=took_s, result=result))
            self._inbox.put_away(command.path, "done", command.identity)

    def refused(self, command: TableCommand, error: TidemarkError) -> None:
        """Answer an accepted table command that cannot be executed."""
        with self._lock:
            self._close(command)
            self._refuse(Command(command.path, command.identity, command.verb), sentences(error.message, error.hint))

    def _close(self, command: TableCommand) -> float:
        self._accepted.remove(command)
        since = next(since for identity, _, since in self._open if identity == command.identity)
        self._open = [opened for opened in self._open if opened[0] != command.identity]
        return round(clock.monotonic_s() - since, 3)

    def forget(self, table: str) -> None:
        """Remove the pause of a removed table."""
        with self._lock:
            controls = self.settings.controls
            if table in controls.tables:
                with suppress(OSError):  # a full disk: the pause of a removed table is harmless
                    self.settings.save(controls.paused({"tables": [table]}, pause=False))

    def done(self, verb: str) -> None:
        """Answer the open commands of this verb as done."""
        with self._lock:
            finished = [command for command in self._open if command[1] == verb and command[0] in self._files]
            self._open = [command for command in self._open if command not in finished]
            for identity, name, since in finished:
                took_s = round(clock.monotonic_s() - since, 3)
                self._journal.write(CommandDone(id=identity, verb=name, duration_s=took_s))
                with suppress(OSError):  # the next run refuses it
                    self._inbox.keep(self._files.pop(identity), "done", identity)

    def settle(self) -> None:
        """Answer pauses and resumes as done if nothing is paused, including pauses lifted before they took effect."""
        with self._lock:
            if self.state == "running":
                self.done("pause")
                self.done("resume")

    def wait(self, seconds: float) -> None:
        """Sleep; a change of state ends it early."""
        self._wake.wait(seconds)
        self._wake.clear()

    def wake(self) -> None:
        """End the current `wait`."""
        self._wake.set()

    @property
    def stopping(self) -> bool:
        return self.state == "stopping"

    @property
    def paused(self) -> bool:
        return self.state == "paused"

    def finish(self, error: Failure | None) -> None:
        """End the run, and show that in `runner.json`."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._error = error
        self.state = after(self.state, "end")
        self._show()

    def _loop(self) -> None:
        last = 0.0
        while not self._closing.wait(_INBOX_S):
            self._guarded("inbox", self._take)
            self._guarded("throttle", self._end_throttle)
            if self.source is not None:
                self.source.look()
            if self.activity.away != self._shown_away:
                self._show()
            if clock.monotonic_s() - last >= HEARTBEAT_S:
                last = clock.monotonic_s()
                self._show()
                for name, chore in self._chores.items():
                    self._guarded(name, chore)
            self._report_journal_failures()

    def _expire(self) -> None:
        if clock.monotonic_s() < self._expire_s:
            return
        self._expire_s = clock.monotonic_s() + _EXPIRE_S
        if expire_and_compress(self._directory.journals, self._journal.run, self._retention_s):
            self._expire_s = 0.0

    def _guarded(self, helper: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nothing may end this thread: it handles commands and the heartbeat
            self.helpers.failed(helper, error)
        else:
            self.helpers.succeeded(helper)

    def _take(self) -> None:
        if self._signal is not None and self.state not in ("stopping", "ended"):
            self.event("stop", f"signal {signal.Signals(self._signal).name}")
        self.poll_inbox()

    def _show(self) -> None:
        """Rewrite `runner.json`. A full disk only makes the heartbeat stale."""
        self._guarded("runner.json", self._beat)

    def _report_journal_failures(self) -> None:
        """Report the journal's failures: it cannot report them itself, as its writers may hold any lock."""
        self._journal.flush()
        failures = dict(self._journal.failures)
        self._listening |= failures.keys()
        for name in list(self._listening):
            if name in failures:
                self.helpers.failed(name, failures[name])
            else:
                self.helpers.succeeded(name)

    def poll_inbox(self) -> None:
        """Take the files in the inbox. Unreadable files are refused; a file that cannot be moved is retried next time.

        Raises HelperError if a folder of the inbox cannot be written: no command is refused for that.
        """
        require_writable(self._directory.inbox, "All commands wait until it can be written. The pipeline continues.")
        with self._lock:
            for path in self._inbox.waiting():
                try:
                    self._take_file(path)
                except Exception as error:
                    if self.disk.takes(error):
                        raise
                    self._unreadable(path, error)

    def _unreadable(self, path: Path, error: Exception) -> None:
        """Refuse a file that cannot be taken for whatever reason, unless it is gone."""
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
        elif why := self._not_for_this_run(command):
            self._refuse(command, why)
        elif command.identity not in self._files:
            self._change(command)

    def _not_for_this_run(self, command: Command) -> str:
        """Why a stop, pause or resume is not for this run; "" if it is. No clock decides.

        A command names the run that its sender saw. One that names none, written by hand or by an earlier version, is
        for this run unless it was in the inbox before this run was visible.
        """
        if not command.names_run:
            return "It was sent before this run began." if self._inbox.is_older(command.path) else ""
        if command.run == self._journal.run or (command.verb == "stop" and command.run in self._restarted):
            return ""
        meant = f"it is for run {command.run}" if command.run else "no run was there"
        return f"It was sent before this run began: {meant}."

    def _change(self, command: Command) -> None:
        """Change the state of this runner.

        The command's file stays in the inbox until it is done; otherwise the next run refuses it.
        """
        identity, verb = command.identity, str(command.verb)
        if verb == "resume" and self.state == "running" and (self.disk.reason or self.activity.away):
            self._try_now()
            self._journal.write(command.accepted())
            self._journal.write(CommandDone(id=identity, verb=verb, duration_s=0.0))
            self._inbox.put_away(command.path, "done", identity)
            return
        try:
            after(self.state, _EVENT_OF[verb])
        except IllegalEventError as error:
            self._refuse(command, sentences(error.message, error.hint))
            return
        self._journal.write(command.accepted())
        self._open.append((identity, verb, clock.monotonic_s()))
        self._files[identity] = command.path
        self.event(_EVENT_OF[verb], command.sender)

    def _try_now(self) -> None:
        """End the wait for room on the disk, or for the source, as far as waiting is all that this runner does."""
        if self.disk.reason:
            self.disk.probe_now()
        if self.source is not None:
            self.source.try_now()
        self._wake.set()

    def _set(self, command: Command) -> None:
        """Change settings that outlive this runner: save them first, then answer."""
        verb, arguments = str(command.verb), command.arguments
        if command.identity in {known.identity for known in self._accepted}:
            return
        try:
            controls = self.settings.after(verb, arguments, self.committed() if self.committed else None)
        except SpecError as error:
            self._refuse(command, sentences(error.message, error.hint))
            return
        if controls is None or not self._claimed(command):
            return
        self.settings.save(controls)
        self.settings.announce()
        if verb == "resume":
            self._retry_parked(None if arguments.get("snapshot") else arguments["tables"])
            if self._resumes_tables(command):
                return
        self._journal.write(command.accepted())
        self._journal.write(CommandDone(id=command.identity, verb=verb, duration_s=0.0))
        self._inbox.put_away(command.path, "done", command.identity)

    def _resumes_tables(self, command: Command) -> bool:
        """Whether a resume must resnapshot tables. It is then answered once the ledger has that."""
        names = command.arguments.get("tables") or ()
        tables = to_resume(names, self.committed().tables) if names and self.committed else ()
        if tables:
            resumption = Resumption(command.identity, command.path, tables)
            self._journal.write(command.accepted(resumption.describe()))
            self._open.append((command.identity, "resume", clock.monotonic_s()))
            self._accepted.append(resumption)
        return bool(tables)

    def _end_throttle(self) -> None:
        with self._lock:
            self.settings.end_throttle()

    def _accept(self, command: Command, parser: Parser) -> None:
        """Accept a table command, whenever it was sent: it may repair a pipeline that cannot run otherwise."""
        identity, verb = command.identity, str(command.verb)
        if self.committed is None or identity in {known.identity for known in self._accepted}:
            return
        if verb in self._in_turn and any(known.verb in self._in_turn for known in self._accepted):
            return  # parse it after the other one is answered
        if not self._claimed(command):
            return
        try:
            parsed = parser(command, self.committed())
        except SpecError as error:
            self._refuse(command, sentences(error.message, error.hint))
            return
        self._journal.write(command.accepted(parsed.describe()))
        self._open.append((identity, verb, clock.monotonic_s()))
        self._accepted.append(parsed)

    def _claimed(self, command: Command) -> bool:
        """Whether a command is this run's to carry out. Refuses one that was withdrawn at the last moment."""
        why = claim_for_run(command.path)
        if why and why != GONE:
            self._refuse(command, why)
        return not why

    def _refuse(self, command: Command, message: str) -> None:
        self._inbox.put_away(command.path, "refused", command.identity)
        self._journal.write(command.refused(message))

    def _beat(self) -> None:
        self._shown_away = self.activity.away
        self._heartbeat.beat(
            self.activity,
            state="paused" if self.disk.reason and self.state == "running" else self.state,
            reason=self._reason if self.state == "paused" else "",
            stop=self._stop,
            **self.disk.as_dict(),
            helpers=self.helpers.as_list(),
            controls=self.settings.controls.as_dict(),
            commands=[{"id": identity, "verb": verb} for identity, verb, _ in list(self._open)],
            error=self._error,
        )
