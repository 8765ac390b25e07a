"""`resume --table` of stopped tables whose destination failed: an operator's request to resnapshot them.

The command stays in the inbox until the ledger has the resnapshot, so that no crash and no lost source can forget it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DestinationError, MissingFilesError
from engine.ledger.state import TableState

_REPAIRABLE = (DestinationError.__name__, MissingFilesError.__name__)


@dataclass(frozen=True)
class Resumption:
    """An accepted command (`run.commands.control.TableCommand`)."""

    identity: str
    path: Path
    tables: tuple[str, ...]
    """The tables to resnapshot."""

    @property
    def verb(self) -> str:
        return "resume"

    def describe(self) -> str:
        """Its tables as text."""
        return ", ".join(self.tables)


def to_resume(names: Sequence[str], tables: Mapping[str, TableState]) -> tuple[str, ...]:
    """Those of the named tables that a resume resnapshots: stopped ones whose destination failed."""
    return tuple(
        name
        for name in names
        if name in tables and (stopped := tables[name].stopped) and stopped["error"] in _REPAIRABLE
    )
