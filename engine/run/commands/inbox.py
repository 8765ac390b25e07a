"""The inbox of a pipeline: files that hold commands, the order in which they came, and where they go once they are answered.

Command line and console put them there (`directory.send_command`); `run.commands.control` judges them. An answered command is kept
in `inbox/done` or `inbox/refused`, so that it is not carried out twice and can be looked at.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from engine import formats
from engine.directory import VERBS
from engine.errors import NewerFormatError, SpecError
from engine.events import CommandAccepted, CommandRefused
from engine.layout import folder_name

Answer = Literal["done", "refused"]
File = tuple[str, int]
"""A file by its name and inode: one that is put there under a name that was used before is another."""
_KEPT = 1000
"""Commands that are kept after they were answered, of either kind."""


@dataclass(frozen=True)
class Command:
    """A command as its file has it. Its file stays in the inbox until it is answered."""

    path: Path
    identity: str
    verb: str | None
    """None where the file is no command."""
    actor: str | None = None
    reason: str | None = None
    arguments: Any = None
    """As they were sent; whoever carries the command out judges them."""
    run: str | None = None
    """The run that its sender saw; None for none."""
    names_run: bool = False
    """Whether it says which run its sender saw. One that was written by hand does not."""
    pipeline: str | None = None
    too_new: str = ""
    """Why this version does not know its format; empty when it does."""

    def accepted(self, what: str | None = None) -> CommandAccepted:
        """For the journal. what: what the command is about, in words."""
        return CommandAccepted(id=self.identity, verb=self.verb, actor=self.actor, reason=self.reason, what=what)

    def refused(self, message: str) -> CommandRefused:
        """For the journal."""
        return CommandRefused(id=self.identity, verb=self.verb, actor=self.actor, reason=self.reason, message=message)

    @property
    def sender(self) -> str:
        """Who sent it, and why, in words."""
        return f"{self.actor}: {self.reason}" if self.reason else str(self.actor)


def unreadable(path: Path) -> Command:
    """What is known of a file that cannot be read as a command."""
    return Command(path, path.stem, None)


def read_command(path: Path) -> Command:
    """Read a file of the inbox. Raises SpecError when it is no command, OSError when it cannot be read."""
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
        too_new = f"{error.message} {error.hint}"
    return Command(path, identity, verb, arguments=arguments, names_run="run" in record, too_new=too_new, **more)


@dataclass
class Inbox:
    """The inbox in a folder. Not safe to use from several threads at once.

    Files are numbered as they are first seen. Those that one look finds together are ordered by the count of their senders.
    """

    folder: Path
    _arrived: dict[File, int] = field(default_factory=dict)
    _older: set[File] = field(default_factory=set)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _stuck: dict[str, Answer] = field(default_factory=dict)

    def begin(self) -> None:
        """What is there now was sent before this run could be seen."""
        self.waiting()
        self._older = set(self._arrived)

    def waiting(self) -> list[Path]:
        """The files that wait, in the order in which they came."""
        found = {_file(path): path for path in self.folder.glob("*.json")}
        self._arrived = {file: place for file, place in self._arrived.items() if file in found}
        for path in sorted((found[file] for file in found.keys() - self._arrived.keys()), key=_order):
            self._arrived[_file(path)] = next(self._numbers)
        return sorted(found.values(), key=lambda path: self._arrived.get(_file(path), 0))

    def commands(self) -> list[Command]:
        """The commands that wait and can be read, judged or not."""
        found = []
        for path in self.waiting():
            with suppress(OSError, SpecError):  # whoever looks into the inbox refuses it
                found.append(read_command(path))
        return found

    def is_older(self, path: Path) -> bool:
        """Whether a file was there before this run could be seen."""
        return _file(path) in self._older

    def done(self, identity: str) -> bool:
        """Whether a command was carried out."""
        return self._kept("done", identity).exists()

    def keep(self, path: Path, answer: Answer, identity: str) -> None:
        """Move the file of an answered command out of the inbox; the newest are kept. Raises OSError."""
        kept = self.folder / answer
        kept.mkdir(exist_ok=True)
        path.replace(self._kept(answer, identity))
        for old in sorted(kept.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)

    def put_away(self, path: Path, answer: Answer, identity: str) -> None:
        """As `keep`. A file that cannot be moved now is moved later (`retry`), and not taken again."""
        try:
            self.keep(path, answer, identity)
        except OSError:
            if path.name in self._stuck or path.exists() or path.is_symlink():
                self._stuck[path.name] = answer
        else:
            self._stuck.pop(path.name, None)

    def retry(self, path: Path) -> bool:
        """Whether the command of this file was answered, and its file could not be moved then; it is tried again."""
        answer = self._stuck.get(path.name)
        if answer is not None:
            self.put_away(path, answer, path.stem)
        return answer is not None

    def _kept(self, answer: Answer, identity: str) -> Path:
        return self.folder / answer / f"{folder_name(identity)}.json"  # an id may hold anything


def unfit(command: Command, inbox: Inbox, pipeline: str) -> str:
    """Why no run of this pipeline takes a command; empty when one would."""
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
    """Orders files that are found at one look: by their senders' count; those without one, written by hand, last, by time."""
    place, time = None, 0
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        time = path.stat().st_mtime_ns
        place = json.loads(path.read_text(encoding="utf-8")).get("seq")
    known = place if isinstance(place, int) else None
    return known is None, known or 0, time, path.name
