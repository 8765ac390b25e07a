"""The answers to commands: an event in the journal, and the command's file in `inbox/done` or `inbox/refused`."""

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from engine.base import clock
from engine.journal import Journal
from engine.journal.events import CommandDone
from engine.pipeline.command_queue import GONE, claim_for_run
from engine.run.commands.inbox import Command, Inbox


class UnansweredCommand(NamedTuple):
    """An accepted command without an answer."""

    identity: str
    verb: str
    since_s: float
    """When it was accepted (`clock.monotonic_s`)."""


class CommandAnswers:
    """Answers the commands of one run. Not thread-safe: callers hold the lock of the inbox."""

    def __init__(self, inbox: Inbox, journal: Journal) -> None:
        self._inbox = inbox
        self._journal = journal

    def accept(self, command: Command, what: str | None = None) -> UnansweredCommand:
        """Journal that a command is accepted. what: what it is about, in words."""
        self._journal.write(command.accepted(what))
        return UnansweredCommand(command.identity, str(command.verb), clock.monotonic_s())

    def accept_done(self, command: Command) -> None:
        """Journal a command that was carried out at once."""
        self._journal.write(command.accepted())
        self._journal.write(CommandDone(id=command.identity, verb=str(command.verb), duration_s=0.0))
        self._inbox.put_away(command.path, "done", command.identity)

    def done(self, command: UnansweredCommand, path: Path, result: dict[str, Any]) -> None:
        """Answer an open command as done."""
        took_s = _seconds_since(command)
        self._journal.write(CommandDone(id=command.identity, verb=command.verb, duration_s=took_s, result=result))
        self._inbox.put_away(path, "done", command.identity)

    def done_with_state(self, command: UnansweredCommand, path: Path) -> None:
        """Answer a command that has changed the state of the run. If its file stays, the next run refuses it."""
        self._journal.write(CommandDone(id=command.identity, verb=command.verb, duration_s=_seconds_since(command)))
        with suppress(OSError):
            self._inbox.keep(path, "done", command.identity)

    def refuse(self, command: Command, why: str) -> None:
        """Answer a command that is not carried out."""
        self._inbox.put_away(command.path, "refused", command.identity)
        self._journal.write(command.refused(why))

    def claimed(self, command: Command) -> bool:
        """Whether a command is this run's to carry out. Refuses one that was withdrawn at the last moment."""
        why = claim_for_run(command.path)
        if why and why != GONE:
            self.refuse(command, why)
        return not why


def _seconds_since(command: UnansweredCommand) -> float:
    return round(clock.monotonic_s() - command.since_s, 3)
