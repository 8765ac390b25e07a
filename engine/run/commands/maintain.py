"""`tidemark maintain`: an operator's request to maintain tables now, and what there is to maintain."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import SpecError, unknown_tables
from engine.destination.maintenance_schedule import MaintenanceRequest
from engine.destination.publisher import Publisher
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.inbox import Command

VERB = "maintain"


@dataclass(frozen=True)
class PublisherCommand:
    """An accepted request to maintain or to merge tables. Its file stays in the inbox until it is answered."""

    identity: str
    path: Path
    tables: tuple[str, ...]
    """Empty: all tables."""
    verb: str

    def describe(self) -> str:
        """Its tables as text."""
        return ", ".join(self.tables) or "all tables"


def command_from(command: Command, state: State) -> PublisherCommand:
    """Parse a command's arguments: "tables", full names, or none for all. Raises SpecError."""
    return PublisherCommand(command.identity, command.path, _tables(command.arguments, state), str(command.verb))


def accepted(commands: AcceptedCommands, verb: str) -> list[PublisherCommand]:
    """The accepted requests of a verb without an answer, in order."""
    return [command for command in commands.accepted(PublisherCommand) if command.verb == verb]


def check(directory: Directory, tables: list[str]) -> None:
    """Raises SpecError for a command that the pipeline would refuse, judged by its current ledger."""
    _tables({"tables": tables}, _state(directory))


def _tables(arguments: Any, state: State) -> tuple[str, ...]:
    """The tables that a command names; empty: all. Raises SpecError."""
    names = arguments.get("tables", []) if isinstance(arguments, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError("It does not say which tables: a list of full names (database.table).")
    if unknown := [name for name in names if name not in state.tables]:
        raise unknown_tables(unknown, state.tables)
    return tuple(dict.fromkeys(names))


class Maintainer:
    """Hands requests to the publisher and answers them."""

    def __init__(self, publisher: Publisher, commands: AcceptedCommands) -> None:
        self._publisher = publisher
        self._commands = commands
        self._requested: set[str] = set()

    def step(self) -> None:
        """Hand over new requests, and answer completed ones."""
        requests = {command.identity: command for command in accepted(self._commands, VERB)}
        for identity in requests.keys() - self._requested:
            self._publisher.maintenance.request(MaintenanceRequest(identity, requests[identity].tables))
            self._requested.add(identity)
        for identity, answer in self._publisher.maintenance.take_totals().items():
            self._requested.discard(identity)
            if identity in requests:
                self._commands.carried_out(requests[identity], answer.to_json())


def _state(directory: Directory) -> State:
    state = Ledger(directory.ledger).state
    if state is None:
        raise SpecError("The pipeline has not run yet.", hint="There is nothing to maintain before its first run.")
    return state
