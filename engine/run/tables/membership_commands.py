"""Commands that add or remove tables, and the resulting membership."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import SpecError, unknown_tables
from engine.base.wording import shell_word
from engine.decode.schema import Table, TableName, table_from_dict
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.source.catalog import BY_GLOBS, Membership

ADD, REMOVE = "add-table", "remove-table"
_NOTHING_CHANGED = "Nothing was added or removed."


@dataclass(frozen=True)
class MembershipCommand:
    """A command that adds or removes all the tables it names, or none."""

    identity: str
    path: Path
    """The command's file, in the inbox until the command is executed."""
    verb: str
    tables: tuple[str, ...]
    drop: bool = False
    """Whether to delete the published data of removed tables."""

    @property
    def adds(self) -> bool:
        return self.verb == ADD

    def describe(self) -> str:
        """Its tables as text."""
        return ", ".join(self.tables) + (" with all published data" if self.drop else "")

    def done(self, state: State) -> bool:
        """Whether the ledger has this command's result; a runner may have been killed before it answered."""
        if self.adds:
            return all(name in state.tables and state.tables[name].by == self.identity for name in self.tables)
        removed = [state.removed[name] for name in self.tables if self._removed_by_this(state, name)]
        return len(removed) == len(self.tables) and all(table.dropped == self.drop for table in removed)

    def begun(self, state: State) -> bool:
        """Whether the ledger has the command, even if parts of it are still to do."""
        return self.done(state) or all(self._removed_by_this(state, name) for name in self.tables)

    def _removed_by_this(self, state: State, name: str) -> bool:
        table = state.removed.get(name)
        return table is not None and table.removed is not None and table.removed.by == self.identity


def check(directory: Directory, verb: str, arguments: dict[str, Any]) -> None:
    """Raises SpecError for a command that the pipeline would refuse, judged by its current ledger."""
    command_from("", directory.inbox, verb, arguments, Ledger(directory.ledger).state)


def command_from(identity: str, path: Path, verb: str, arguments: Any, state: State | None) -> MembershipCommand:
    """Parse a command's arguments: "tables", full names, and "drop". Raises SpecError like `check_command`."""
    names = arguments.get("tables") if isinstance(arguments, Mapping) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _wrong("It does not say which tables: a list of full names (database.table).")
    change = MembershipCommand(identity, path, verb, tuple(dict.fromkeys(names)), bool(arguments.get("drop")))
    if state is None or not change.begun(state):
        check_command(change, state)
    return change


def check_command(change: MembershipCommand, state: State | None) -> None:
    """Raises SpecError for a command that contradicts the ledger."""
    (_check_added if change.adds else _check_removed)(change, state)


def _check_added(change: MembershipCommand, state: State | None) -> None:
    if captured := [name for name in change.tables if state and name in state.tables]:
        raise _wrong(
            f"The pipeline has {', '.join(captured)} already.",
            f"To redump it: tidemark redump SPEC --table {shell_word(captured[0])}",
        )


def _check_removed(change: MembershipCommand, state: State | None) -> None:
    tables = state.tables if state else {}
    if gone := [name for name in change.tables if state and name in state.removed]:
        raise _wrong(f"{', '.join(gone)} was removed already.", "What was kept of it can be deleted by hand.")
    if unknown := [name for name in change.tables if name not in tables]:
        raise unknown_tables(unknown, tables, _NOTHING_CHANGED)
    if not set(tables) - set(change.tables):
        raise _wrong(
            "No table would be left.",
            "Add another table first: tidemark add-table SPEC --table database.table. Or end the pipeline: "
            "tidemark stop SPEC",
        )


def members_of(state: State | None) -> Membership:
    """The tables in the ledger that override the spec's globs."""
    if state is None:
        return BY_GLOBS
    also, without = (
        frozenset((table.database, table.name) for table in (table_from_dict(t.table) for t in tables.values()))
        for tables in (state.tables, state.removed)
    )
    return Membership(also, without)


def streamed_tables(state: State) -> list[TableName]:
    """The tables that are copied or streamed, or will be once the account may read them again."""
    tables = (table_from_dict(table.table) for table in state.tables.values() if table.due or not table.stopped)
    return [(table.database, table.name) for table in tables]


def removed_tables(state: State | None) -> list[Table]:
    """The removed tables, with their columns at that time."""
    return [table_from_dict(table.table) for table in state.removed.values()] if state else []


def members_in(directory: Directory) -> tuple[Membership, list[Table]]:
    """The membership and the removed tables of the pipeline in a directory."""
    state = Ledger(directory.ledger).state
    return members_of(state), removed_tables(state)


def _wrong(message: str, hint: str = "") -> SpecError:
    return SpecError(message, detail=_NOTHING_CHANGED, hint=hint)
