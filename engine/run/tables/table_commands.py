"""Table commands: which parser handles each verb, and which tables waiting commands affect."""

from collections.abc import Iterable
from pathlib import Path

from engine.capture.redump_requests import redump_from
from engine.ledger.state import State
from engine.run.commands.inbox import Command
from engine.run.commands.maintain import VERB as MAINTAIN
from engine.run.commands.maintain import command_from as publisher_command
from engine.run.commands.table_command import Parser, TableCommand
from engine.run.epochs.publisher_commands import VERB as MERGE
from engine.run.tables.membership_commands import ADD, REMOVE, command_from

IN_TURN = (ADD, REMOVE)
"""Membership commands: each is checked against the result of the one before it."""
_PARTS = ("chunks", "range", "keys")


def parsers(journals: Path) -> dict[str, Parser]:
    """Parsers by verb. journals: the pipeline's journals, which record the bounds of its chunks."""

    def redump(command: Command, state: State) -> TableCommand:
        return redump_from(command.identity, command.path, command.arguments, state.tables, journals)

    def membership(command: Command, state: State) -> TableCommand:
        return command_from(command.identity, command.path, str(command.verb), command.arguments, state)

    return {
        "redump": redump,
        ADD: membership,
        REMOVE: membership,
        MAINTAIN: publisher_command,
        MERGE: publisher_command,
    }


def to_add(commands: Iterable[Command]) -> set[str]:
    """The tables that commands add."""
    return {name for command in commands if command.verb == ADD for name in _tables(command)}


def to_replace(commands: Iterable[Command]) -> set[str]:
    """The tables that commands resnapshot or remove."""
    return {name for command in commands if command.verb in ("redump", "resume", REMOVE) for name in _whole(command)}


def resumed(commands: Iterable[Command]) -> set[str]:
    """The tables that commands resume."""
    return {name for command in commands if command.verb == "resume" for name in _tables(command)}


def everything(commands: Iterable[Command]) -> bool:
    """Whether a command resnapshots all tables."""
    return any(command.verb == "redump" and not _has_part(command) and not _tables(command) for command in commands)


def _whole(command: Command) -> list[str]:
    return [] if command.verb != REMOVE and _has_part(command) else _tables(command)


def _has_part(command: Command) -> bool:
    return isinstance(command.arguments, dict) and any(command.arguments.get(part) for part in _PARTS)


def _tables(command: Command) -> list[str]:
    named = command.arguments.get("tables") if isinstance(command.arguments, dict) else None
    return [str(name) for name in named] if isinstance(named, list) else []
