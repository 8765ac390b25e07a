"""`resume --table` of stopped tables: an operator's request to resnapshot them, once what stopped them is fixed.

The command stays in the inbox until the ledger has the resnapshot, so that no crash and no lost source can forget it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.ledger.state import TableState


@dataclass(frozen=True)
class Resumption:
    """An accepted command (`run.commands.table_command`)."""

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
    """Those of the named tables that a resume resnapshots: the stopped ones."""
    return tuple(name for name in names if name in tables and tables[name].stopped)
