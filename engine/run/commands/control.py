"""What the outside world may ask of a runner, and what it sees of it: signals, inbox, heartbeat.

A thread of its own looks into the inbox and rewrites `runner.json`, so both go on while the coordinator waits for Spark. Nothing
that it meets ends it (`run.helpers`): a file that cannot be read, or that makes its reader fail, is put into `inbox/refused`.
"""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

from engine import clock, formats, processes
from engine.directory import HEARTBEAT_S, VERBS, Directory, overwrite, write_atomically
from engine.errors import NewerFormatError, SpecError, TidemarkError, is_disk_full
from engine.events import Journal
from engine.layout import folder_name
from engine.ledger.state import State
from engine.redaction import clean
from engine.run.commands.overrides import Controls, load_controls, save_controls
from engine.run.disk import Disk
from engine.run.helpers import Helpers
from engine.run.redump.requests import Redump, redump_from
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.throttle import Pace
from engine.run.state_machines import IllegalEventError, after
from engine.run.tables.membership_commands import ADD, REMOVE, Change, change_from
from engine.settings import Throttle, throttled

_INBOX_S = 0.2
_KEPT = 1000
"""Commands that are kept after they were answered, of either kind."""
_EVENT_OF = {"pause": "pause", "resume": "resume", "stop": "stop"}


def _came(command: Path) -> tuple[bool, int, int, str]:
    """Orders commands that are found at one look: by their own count; those without one, written by hand, last, by time."""
    place, time = None, 0
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        time = command.stat().st_mtime_ns
        place = json.loads(command.read_text(encoding="utf-8")).get("seq")
    known = place if isinstance(place, int) else None
    return known is None, known or 0, time, command.name


def _file(path: Path) -> tuple[str, int]:
    """A file by its name and inode: one that is put there under a name that was used before is another."""
    with suppress(OSError):
        return path.name, path.lstat().st_ino
    return path.name, 0


class Control:
    """State, phase and heartbeat of this runner; `state` changes by commands and signals.

    Call `start` once the journal is open and `finish` at the end. folders: where the run writes beside its own directory.
    """

    def __init__(
        self,
        directory: Directory,
        journal: Journal,
        throttle: Throttle | None = None,
        name: str = "",
        folders: Sequence[Path] = (),
    ) -> None:
        self._directory, self._journal, self._name = directory, journal, name
        self._spec_throttle = throttle or Throttle()
        self.controls = load_controls(directory)
        self.pace = Pace(throttled(self._spec_throttle, self.controls.throttle))
        self.waiting_for = ""  # why no table is read now, in words
        self.away: dict[str, Any] | None = None  # the fields of `away.Outage` while the source is away
        self.parking = Parking(directory, journal)
        self.disk = Disk([directory.root, *folders], journal, self._disk_full, self._disk_freed)
        self.helpers = Helpers(journal, self.disk)
        # By table, what is being read of it for the longest time: {"chunks": numbers, "since": UTC text}.
        self.reading: Mapping[str, dict[str, Any]] = {}
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self.state, self.phase = "starting", "starting"
        self.spark_ui: str | None = None
        # What the ledger holds; commands about tables wait until it is known.
        self.committed: Callable[[], State] | None = None
        self._error: dict[str, str] | None = None
        self._signal: int | None = None
        self._started, self._beats = clock.utc_text(), 0
        self._arrived: dict[
            tuple[str, int], int
        ] = {}  # files of the inbox by name and inode, numbered as they were first seen
        self._older: set[tuple[str, int]] = set()  # those that were there before this run could be seen
        self._open: list[tuple[str, str, float]] = []
        self._asked: list[Redump | Change] = []
        self._places = count(1)
        self._files: dict[str, Path] = {}  # of open commands that change the state
        self._healing: set[str] = set()
        self._put_by: dict[str, str] = {}  # answered commands whose files could not be moved: by name, the folder
        self._listening: set[str] = set()  # listeners of the journal that failed
        self._thread = threading.Thread(target=self._attend, name="control", daemon=True)

    def start(self) -> None:
        """Begin to look into the inbox and to show the heartbeat; SIGTERM and SIGINT become a stop."""
        with self._lock:
            self._inbox()
            self._older = set(self._arrived)
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
                self._journal.write("run.state", state=following, reason=reason)
                self.state = following
            self._wake.set()
        self._show()

    def _disk_full(self, reason: str) -> None:
        """Nothing is begun until there is room. The state stays what operators made it; what is shown is a pause."""
        if self.state == "running":
            self._journal.write("run.state", state="paused", reason=reason)
        self._wake.set()

    def _disk_freed(self) -> None:
        """There is room again; chunks may have been parked for the lack of it."""
        self.parking.ask(None)
        if self.state == "running":
            self._journal.write("run.state", state="running", reason="there is room on the disk again")
        self._wake.set()

    def overloaded(self, reason: str) -> None:
        """The source is in danger: everything pauses until somebody resumes it."""
        with suppress(IllegalEventError):  # it is paused, or ends
            self.event("pause", reason)

    @property
    def asked(self) -> bool:
        """Whether a command about tables is accepted and not carried out."""
        return bool(self._asked)

    def redumps(self) -> list[Redump]:
        """The wishes to read tables again that are accepted and not carried out."""
        with self._lock:
            return [asked for asked in self._asked if isinstance(asked, Redump)]

    def change(self) -> Change | None:
        """The wish to add or remove tables that is accepted and not carried out; the next is looked at after it."""
        with self._lock:
            return next((asked for asked in self._asked if isinstance(asked, Change)), None)

    def to_add(self) -> set[str]:
        """The tables that commands in the inbox want to be added, judged or not."""
        found: set[str] = set()
        with self._lock:
            for path in self._inbox():
                with suppress(
                    OSError, ValueError, KeyError, TypeError, RecursionError
                ):  # the inbox's thread refuses it
                    command = json.loads(path.read_text(encoding="utf-8"))
                    found.update(command["arguments"]["tables"] if command["verb"] == ADD else ())
        return found

    def named(self) -> set[str]:
        """The tables of which commands in the inbox, judged or not, want a whole redump or the removal."""
        return {name for tables in self._wanted() for name in tables or ()}

    def everything(self) -> bool:
        """Whether a redump of everything is wanted."""
        return any(not tables for tables in self._wanted())

    def _wanted(self) -> Iterator[list[str]]:
        for path in self._inbox():
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                command = json.loads(path.read_text(encoding="utf-8"))
                arguments = command["arguments"]
                part = any(arguments.get(name) for name in ("chunks", "range", "keys"))
                if command["verb"] == REMOVE or (command["verb"] in ("redump", "resume") and not part):
                    tables = arguments.get("tables") or []
                    if tables or command["verb"] == "redump":
                        yield [str(name) for name in tables]

    def healing(self) -> set[str]:
        """The tables that were resumed since the last call; those that a failed destination stopped are resnapshotted."""
        with self._lock:
            found, self._healing = self._healing, set()
        return found

    def carried_out(self, asked: Redump | Change, result: dict[str, Any]) -> None:
        """What a command about tables asked for is done."""
        with self._lock:  # or its file, still in the inbox, is taken for another command
            took_s = self._close(asked)
            self._journal.write("command.done", id=asked.identity, verb=asked.verb, duration_s=took_s, result=result)
            self._put_away(asked.path, "done", asked.identity)

    def refused(self, asked: Redump | Change, error: TidemarkError) -> None:
        """It was accepted, and cannot be carried out."""
        told = {"id": asked.identity, "verb": asked.verb, "actor": None, "reason": None}
        with self._lock:
            self._close(asked)
            self._refuse(asked.path, told, f"{error.message} {error.hint}".strip())

    def _close(self, asked: Redump | Change) -> float:
        self._asked.remove(asked)
        since = next(since for identity, _, since in self._open if identity == asked.identity)
        self._open = [command for command in self._open if command[0] != asked.identity]
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
                self._journal.write("command.done", id=identity, verb=name, duration_s=took_s)
                with suppress(OSError):  # the next run refuses it
                    self._keep(self._files.pop(identity), "done", identity)

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

    def finish(self, error: dict[str, str] | None) -> None:
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
            for path in self._inbox():
                try:
                    self._command(path)
                except Exception as error:
                    if is_disk_full(error):
                        raise
                    self._unreadable(path, error)

    def _unreadable(self, path: Path, error: Exception) -> None:
        """Refuse a file that cannot be taken, whatever the reason, unless somebody took it away."""
        if not path.exists() and not path.is_symlink():
            return
        told = {"id": path.stem, "verb": None, "actor": None, "reason": None}
        self._refuse(path, told, f"The file cannot be taken as a command: {type(error).__name__}: {error}.")

    def _inbox(self) -> list[Path]:
        """The commands that wait, in the order in which they came."""
        found = {_file(path): path for path in self._directory.inbox.glob("*.json")}
        self._arrived = {file: place for file, place in self._arrived.items() if file in found}
        for path in sorted((found[file] for file in found.keys() - self._arrived.keys()), key=_came):
            self._arrived[_file(path)] = next(self._places)
        return sorted(found.values(), key=lambda path: self._arrived.get(_file(path), 0))

    def _command(self, path: Path) -> None:
        if path.name in self._put_by:
            self._put_away(path, self._put_by[path.name], path.stem)
            return
        try:
            command = json.loads(path.read_text(encoding="utf-8"))
            identity, verb = str(command["id"]), str(command["verb"])
            told = {"id": identity, "verb": verb, "actor": command.get("actor"), "reason": command.get("reason")}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            told = {"id": path.stem, "verb": None, "actor": None, "reason": None}
            self._refuse(path, told, f"The file is not a command: {error!r}.")
            return
        arguments = command.get("arguments") or {}
        if why := self._unfit(path, command, identity, verb):
            self._refuse(path, told, why)
        elif verb in ("redump", ADD, REMOVE):
            self._ask(path, told, arguments)
        elif verb == "throttle" or (verb in ("pause", "resume") and arguments):
            self._set(path, told, arguments)
        elif why := self._not_ours(path, command):
            self._refuse(path, told, why)
        elif identity not in self._files:
            self._change(path, told)

    def _unfit(self, path: Path, command: dict[str, Any], identity: str, verb: str) -> str:
        """Why no run of this version takes a command; empty when one would."""
        try:
            formats.check("command", command, path)
        except NewerFormatError as error:
            return f"{error.message} {error.hint}"
        if self._kept("done", identity).exists():
            return "It was carried out already."
        if verb not in VERBS:
            return f"There is no command {verb!r}; there are {', '.join(VERBS)}."
        if command.get("pipeline") not in (None, self._name):
            return f"It is meant for the pipeline {command['pipeline']}."
        return ""

    def _not_ours(self, path: Path, command: dict[str, Any]) -> str:
        """Why a stop, a pause or a resume is not for this run; empty when it is. No clock decides.

        It names the run that its sender saw. One that names none, written by hand or by an earlier version, is for this run
        unless it lay in the inbox before this run could be seen.
        """
        if "run" in command:
            meant = command["run"]
            if meant == self._journal.run:
                return ""
            return f"It was sent before this run began: {f'it is for run {meant}' if meant else 'no run was there'}."
        return "It was sent before this run began." if _file(path) in self._older else ""

    def _change(self, path: Path, told: dict[str, Any]) -> None:
        """What changes the state of this runner.

        Its file waits in the inbox until it is done; if that is never, the next run refuses it.
        """
        identity, verb = str(told["id"]), str(told["verb"])
        with self._lock:
            if verb == "resume" and self.disk.reason and self.state == "running":
                self.disk.try_now()
                self._journal.write("command.accepted", **told)
                self._journal.write("command.done", id=identity, verb=verb, duration_s=0.0)
                self._put_away(path, "done", identity)
                return
            try:
                after(self.state, _EVENT_OF[verb])
            except IllegalEventError as error:
                self._refuse(path, told, f"{error.message} {error.hint}")
                return
            self._journal.write("command.accepted", **told)
            self._open.append((identity, verb, clock.monotonic_s()))
            self._files[identity] = path
            self.event(_EVENT_OF[verb], f"{told['actor']}: {told['reason']}" if told["reason"] else str(told["actor"]))

    def _set(self, path: Path, told: dict[str, Any], arguments: Any) -> None:
        """What holds until it is changed again, over the end of this runner: kept first, answered then."""
        try:
            controls = self._changed(str(told["verb"]), arguments)
        except SpecError as error:
            self._refuse(path, told, f"{error.message} {error.hint}".strip())
            return
        if controls is None:
            return
        self._save(controls)
        self._journal.write("command.accepted", **told)
        self.pace.settings = throttled(self._spec_throttle, controls.throttle)
        if told["verb"] == "resume":
            self.parking.ask(None if arguments.get("snapshot") else arguments["tables"])
            self._healing.update(arguments.get("tables") or ())
        self._journal.write("command.done", id=told["id"], verb=told["verb"], duration_s=0.0)
        self._put_away(path, "done", str(told["id"]))

    def _save(self, controls: Controls) -> None:
        save_controls(self._directory, controls)
        self.controls = controls
        self._journal.write("run.controls", **asdict(controls))

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

    def _ask(self, path: Path, told: dict[str, Any], arguments: Any) -> None:
        """About tables; taken whenever it was sent: it may be what heals a pipeline that cannot run otherwise."""
        identity, verb = str(told["id"]), str(told["verb"])
        if self.committed is None or identity in {asked.identity for asked in self._asked}:
            return
        if verb != "redump" and self.change() is not None:
            return  # it is judged by what that one leaves
        asked: Redump | Change
        try:
            state = self.committed()
            if verb == "redump":
                asked = redump_from(identity, path, arguments, state.tables, self._directory.journals)
            else:
                asked = change_from(identity, path, verb, arguments, state)
        except SpecError as error:
            self._refuse(path, told, f"{error.message} {error.hint}".strip())
            return
        self._journal.write("command.accepted", **told, what=asked.told())
        self._open.append((identity, verb, clock.monotonic_s()))
        self._asked.append(asked)

    def _refuse(self, path: Path, told: dict[str, Any], message: str) -> None:
        self._put_away(path, "refused", str(told["id"]))
        self._journal.write("command.refused", **told, message=message)

    def _put_away(self, path: Path, folder: str, identity: str) -> None:
        """Move the file of an answered command; one that cannot be moved now is not taken again."""
        try:
            self._keep(path, folder, identity)
        except OSError:
            if path.name not in self._put_by and not (path.exists() or path.is_symlink()):
                return
            self._put_by[path.name] = folder
        else:
            self._put_by.pop(path.name, None)

    def _kept(self, folder: str, identity: str) -> Path:
        """Where a command is kept; its id may hold anything."""
        return self._directory.inbox / folder / f"{folder_name(identity)}.json"

    def _keep(self, path: Path, folder: str, identity: str) -> None:
        """Move a command's file out of the inbox, to be looked at; the newest are kept."""
        kept = self._directory.inbox / folder
        kept.mkdir(exist_ok=True)
        path.replace(self._kept(folder, identity))
        for old in sorted(kept.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)

    def _beat(self) -> None:
        self._beats += 1
        record = {
            formats.FIELD: formats.VERSIONS["runner"],
            "run": self._journal.run,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "state": "paused" if self.disk.reason and self.state == "running" else self.state,
            "phase": self.phase,
            "heartbeat": clock.utc_text(),
            "beat": self._beats,
            "process": processes.here(),
            "started": self._started,
            "spark_ui": self.spark_ui,
            "waiting_for": self.disk.reason or self.waiting_for,
            "away": self.away,
            "disk_full": self.disk.reason or None,
            "helpers": self.helpers.as_list(),
            "reading": self.reading,
            "controls": asdict(self.controls),
            "commands": [{"id": identity, "verb": verb} for identity, verb, _ in list(self._open)],
            "error": self._error,
        }
        text = json.dumps(clean(record), indent=1)
        try:
            write_atomically(self._directory.runner, text)
        except OSError as error:
            if is_disk_full(error):
                with suppress(OSError):  # else the heartbeat gets old
                    overwrite(self._directory.runner, text)
            raise
