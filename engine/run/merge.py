"""`tidemark merge`: an operator's request to merge the waiting changes of tables into their mirrors now, whatever that costs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from engine.ledger.state import State
from engine.run.commands.control import Control
from engine.run.commands.inbox import Command
from engine.run.maintain import tables_from

VERB = "merge"


@dataclass(frozen=True)
class MergeCommand:
    """An accepted request. Its file stays in the inbox until it is answered."""

    identity: str
    path: Path
    tables: tuple[str, ...]
    """Empty: all tables."""
    verb: str = VERB

    def describe(self) -> str:
        """Its tables as text."""
        return ", ".join(self.tables) or "all tables"


def command_from(command: Command, state: State) -> MergeCommand:
    """Parse a command's arguments: "tables", full names, or none for all. Raises SpecError."""
    return MergeCommand(command.identity, command.path, tables_from(command.arguments, state))


class Merger:
    """Answers requests once the mirrors have what was committed when they were taken.

    merge: merges tables at once, with all that is committed; returns whether they are merged.
    """

    def __init__(self, control: Control, merge: Callable[[Collection[str]], Callable[[], bool]]) -> None:
        self._control, self._merge = control, merge
        self._asked: dict[str, Callable[[], bool]] = {}

    def step(self, tables: Collection[str]) -> None:
        """Hand over new requests, and answer completed ones. tables: all tables."""
        for command in self._control.accepted(MergeCommand):
            if command.identity not in self._asked:
                self._asked[command.identity] = self._merge(command.tables or tables)
            if self._asked[command.identity]():
                del self._asked[command.identity]
                self._control.carried_out(command, {})
