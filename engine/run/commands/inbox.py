"""The inbox of a pipeline: command files, their order of arrival, and their place after the answer.

The command line and the console write them (`pipeline.command_file`); `run.commands.command_intake` takes them. An
answered command is kept in `inbox/done` or `inbox/refused`, so that it is not executed twice and can be inspected. A
command may be withdrawn before a run has claimed it (`engine.pipeline.command_queue`).
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from engine.base.errors import NewerFormatError, SpecError
from engine.base.wording import sentences
from engine.journal.events import CommandAccepted, CommandRefused
from engine.pipeline import formats
from engine.pipeline.command_file import VERBS
from engine.pipeline.command_queue import CommandOutcome, answered_file, keep_answered

File = tuple[str, int]
"""A file by name and inode: a new file under an old name is a different one."""
_JOURNALLED_KEYS = 20


@dataclass(frozen=True)
class Command:
    """The content of a command file, which stays in the inbox until it is answered."""

    path: Path
    identity: str
    verb: str | None
    """None if the file is not a command."""
    actor: str | None = None
    reason: str | None = None
    arguments: Any = None
    """As sent; the parser of the verb checks them."""
    run: str | None = None
    """The run that its sender saw; None if there was none."""
    names_run: bool = False
    """Whether it names the run that its sender saw. A handwritten command does not."""
    pipeline: str | None = None
    too_new: str = ""
    """Why this version does not know its format; "" if it does."""

    def accepted(self, what: str | None = None) -> CommandAccepted:
        """For the journal. what: what the command is about, in words."""
        arguments = self.arguments if isinstance(self.arguments, Mapping) else {}
        bounds, keys = arguments.get("range"), arguments.get("keys")
        keys = keys[:_JOURNALLED_KEYS] if isinstance(keys, list) else None
        return CommandAccepted(
            id=self.identity, verb=self.verb, actor=self.actor, reason=self.reason, what=what, range=bounds, keys=keys
        )

    def refused(self, message: str) -> CommandRefused:
        """For the journal."""
        return CommandRefused(id=self.identity, verb=self.verb, actor=self.actor, reason=self.reason, message=message)

    @property
    def sender(self) -> str:
        """Who sent it, and why."""
        return f"{self.actor}: {self.reason}" if self.reason else str(self.actor)


def unreadable(path: Path) -> Command:
    """A stand-in command for a file that cannot be read."""
    return Command(path, path.stem, None)


def read_command(path: Path) -> Command:
    """Read a command file. Raises SpecError if it is not a command, OSError if it cannot be read."""
    too_new = ""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        identity, verb = str(record["id"]), str(record["verb"])
        more = {name: record.get(name) for name in ("actor", "reason", "run", "pipeline")}
        arguments = record.get("arguments") or {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SpecError(f"The file is not a command: {error!r}.") from error
    try:
        formats.check("command", record, path)
    except NewerFormatError as error:
        too_new = sentences(error.message, error.hint)
    return Command(path, identity, verb, arguments=arguments, names_run="run" in record, too_new=too_new, **more)


@dataclass
class Inbox:
    """The inbox in a folder. Not thread-safe.

    Files are numbered in the order of discovery. Files discovered together are ordered by their senders' counter.
    """

    folder: Path
    _arrived: dict[File, int] = field(default_factory=dict)
    _older: set[File] = field(default_factory=set)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _stuck: dict[str, CommandOutcome] = field(default_factory=dict)

    def begin(self) -> None:
        """Mark the current files as sent before this run was visible."""
        self.waiting()
        self._older = set(self._arrived)

    def waiting(self) -> list[Path]:
        """The waiting files in order of arrival."""
        files = {_file(path): path for path in self.folder.glob("*.json")}
        self._arrived = {file: place for file, place in self._arrived.items() if file in files}
        for path in sorted((files[file] for file in files.keys() - self._arrived.keys()), key=_order):
            self._arrived[_file(path)] = next(self._numbers)
        return sorted(files.values(), key=lambda path: self._arrived.get(_file(path), 0))

    def commands(self) -> list[Command]:
        """The readable waiting commands, accepted or not."""
        arrivals = []
        for path in self.waiting():
            with suppress(OSError, SpecError):  # the inbox thread refuses it
                arrivals.append(read_command(path))
        return arrivals

    def is_older(self, path: Path) -> bool:
        """Whether a file was sent before this run was visible."""
        return _file(path) in self._older

    def done(self, identity: str) -> bool:
        """Whether a command was executed."""
        return answered_file(self.folder, "done", identity).exists()

    def keep(self, path: Path, answer: CommandOutcome, identity: str) -> None:
        """Move the file of an answered command out of the inbox, and prune old ones. Raises OSError."""
        keep_answered(path, answer, identity)

    def put_away(self, path: Path, answer: CommandOutcome, identity: str) -> None:
        """Like `keep`. A file that cannot be moved now is not taken again; `retry` moves it later."""
        try:
            self.keep(path, answer, identity)
        except OSError:
            if path.name in self._stuck or path.exists() or path.is_symlink():
                self._stuck[path.name] = answer
        else:
            self._stuck.pop(path.name, None)

    def retry(self, path: Path) -> bool:
        """Whether this file's command was answered but its file not moved; tries to move it again."""
        answer = self._stuck.get(path.name)
        if answer is not None:
            self.put_away(path, answer, path.stem)
        return answer is not None


def unfit(command: Command, inbox: Inbox, pipeline: str) -> str:
    """Why no run of this pipeline takes a command; "" if one would."""
    if command.too_new:
        return command.too_new
    if inbox.done(command.identity):
        return "It was carried out already."
    if command.verb not in VERBS:
        return f"There is no command {command.verb!r}; there are {', '.join(VERBS)}."
    if command.pipeline not in (None, pipeline):
        return f"It is meant for the pipeline {command.pipeline}."
    return ""


def _file(path: Path) -> File:
    with suppress(OSError):
        return path.name, path.lstat().st_ino
    return path.name, 0


def _order(path: Path) -> tuple[bool, int, int, str]:
    """The sort key of files discovered together: the senders' counter.

    Files without one, written by hand, come last, by time.
    """
    place, time = None, 0
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        time = path.stat().st_mtime_ns
        place = json.loads(path.read_text(encoding="utf-8")).get("seq")
    number = place if isinstance(place, int) else None
    return number is None, number or 0, time, path.name
