"""What the control of a run knows of the commands that change tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from engine.ledger.state import State
from engine.run.commands.inbox import Command


class TableCommand(Protocol):
    """An accepted table command: a redump, or tables to add or remove.

    Its file stays in the inbox until it is answered.
    """

    @property
    def identity(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def verb(self) -> str: ...
    def describe(self) -> str:
        """The request as text."""


Parser = Callable[[Command, State], TableCommand]
"""Checks a command against the ledger. Raises SpecError."""
