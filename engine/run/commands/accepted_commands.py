"""The table commands of a run, from their acceptance to their answer: redumps, tables to add or remove, maintenance."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from engine.base.errors import SpecError, TidemarkError
from engine.base.wording import sentences
from engine.ledger.state import State
from engine.run.commands.command_answers import CommandAnswers, UnansweredCommand
from engine.run.commands.inbox import Command
from engine.run.commands.table_command import Parser, TableCommand

T = TypeVar("T", bound=TableCommand)


class AcceptedCommands:
    """The accepted table commands without an answer, in order. Thread-safe.

    None is accepted before `begin`: they are checked against the ledger.
    """

    def __init__(
        self,
        answers: CommandAnswers,
        lock: AbstractContextManager[object],
        parsers: Mapping[str, Parser],
        in_turn: Collection[str] = (),
    ) -> None:
        """parsers: by verb. in_turn: verbs whose commands are parsed only after the previous one is answered.

        lock: of the inbox.
        """
        self._answers = answers
        self._lock = lock
        self._parsers = parsers
        self._in_turn = in_turn
        self._committed: Callable[[], State] | None = None
        self._commands: list[TableCommand] = []
        self._open: dict[str, UnansweredCommand] = {}

    def begin(self, committed: Callable[[], State]) -> None:
        """Accept commands from now on. committed: the committed state."""
        self._committed = committed

    def state(self) -> State | None:
        """The committed state; None before `begin`."""
        return self._committed() if self._committed else None

    def parser(self, command: Command) -> Parser | None:
        """The parser of a table command; None for other commands."""
        return self._parsers.get(str(command.verb))

    def take(self, command: Command, parser: Parser) -> None:
        """Accept or refuse a command, whenever it was sent: it may repair a pipeline that cannot run otherwise."""
        if self._committed is None or self.holds(command.identity):
            return
        if command.verb in self._in_turn and any(one.verb in self._in_turn for one in self._commands):
            return  # parse it after the other one is answered
        if not self._answers.claimed(command):
            return
        try:
            parsed = parser(command, self._committed())
        except SpecError as error:
            self._answers.refuse(command, sentences(error.message, error.hint))
            return
        self.add(command, parsed)

    def add(self, command: Command, parsed: TableCommand) -> None:
        """Accept a command that was checked."""
        self._open[command.identity] = self._answers.accept(command, parsed.describe())
        self._commands.append(parsed)

    def holds(self, identity: str) -> bool:
        """Whether a command was accepted and has no answer yet."""
        return identity in self._open

    @property
    def pending(self) -> bool:
        """Whether an accepted command has no answer yet."""
        return bool(self._commands)

    @property
    def open(self) -> list[UnansweredCommand]:
        """All of them, for the heartbeat."""
        return list(self._open.values())

    def accepted(self, kind: type[T]) -> list[T]:
        """Those of a kind, in order."""
        with self._lock:
            return [command for command in self._commands if isinstance(command, kind)]

    def carried_out(self, command: TableCommand, result: dict[str, Any]) -> None:
        """Answer a command as done."""
        with self._lock:  # else the inbox thread takes its file for a new command
            self._answers.done(self._close(command), command.path, result)

    def refused(self, command: TableCommand, error: TidemarkError) -> None:
        """Answer a command that cannot be executed."""
        with self._lock:
            self._close(command)
            refused = Command(command.path, command.identity, command.verb)
            self._answers.refuse(refused, sentences(error.message, error.hint))

    def _close(self, command: TableCommand) -> UnansweredCommand:
        self._commands.remove(command)
        return self._open.pop(command.identity)
