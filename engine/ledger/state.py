"""The committed state of a pipeline, and what an epoch does to it. Pure.

An epoch record is the only unit of change:

    {"epoch": 7, "run": …, "ts": …, "from": position, "to": position, "next_seq": …,
     "identity": …, "ledger": …,                                       epoch 0 only
     "tables": {"shop.orders": {"planned": {"table": …, "plan": …},     when it joins
                                "chunks": [{"chunk", "exact", "files", "rows", "nulled"}, …],
                                "changes": {"files", "kinds", "nulled"},
                                "stopped": error}}}

The state after epoch k is the records 0…k applied in order; a full state is only a shortcut to that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import LedgerError

Record = dict[str, Any]


@dataclass(frozen=True)
class TableState:
    """One table: columns and plan (dictionaries of `decode.schema` and `plan.chunks`), finished chunks, what was counted.

    nulled: dates that do not exist and were read as NULL, by column (each image of a change counts).
    """

    table: Record
    plan: Record
    finished: frozenset[int] = frozenset()
    rows_read: int = 0
    changes_applied: int = 0
    nulled: Mapping[str, int] = field(default_factory=dict)
    stopped: Record | None = None

    @property
    def chunks(self) -> int:
        return len(self.plan["chunks"])

    @property
    def copied(self) -> bool:
        """Whether every chunk is finished."""
        return len(self.finished) == self.chunks

    @property
    def begun(self) -> bool:
        """Whether it has, or will have, a place in the destination: not so when it was refused from the start."""
        return not self.stopped or bool(self.finished or self.changes_applied)

    @property
    def state(self) -> str:
        """copying, streaming (copied and followed) or stopped."""
        return "stopped" if self.stopped else "streaming" if self.copied else "copying"


@dataclass(frozen=True)
class State:
    """The state after `epoch`. position: a dictionary of `source.positions`. next_seq: of the next change."""

    epoch: int
    ledger: str
    identity: str
    position: Record
    next_seq: int
    tables: Mapping[str, TableState] = field(default_factory=dict)

    @property
    def copied(self) -> bool:
        """Whether no chunk of a table that is followed is pending."""
        return all(table.copied or table.stopped for table in self.tables.values())


def apply(state: State | None, record: Record) -> State:
    """The state after one more epoch. Raises LedgerError when the record does not follow."""
    expected = 0 if state is None else state.epoch + 1
    if record["epoch"] != expected:
        raise LedgerError(
            f"The ledger has epoch {record['epoch']} where {expected} must follow.",
            detail="An epoch file is missing or was put there by hand; nothing is published on a state that is not proved.",
            hint="Restore the file from a backup, or copy the tables again into a new destination.",
        )
    if state is None:
        state = State(0, record["ledger"], record["identity"], record["to"], 0)
    tables = dict(state.tables)
    for name, change in record["tables"].items():
        tables[name] = _apply_table(tables.get(name), change)
    return replace(state, epoch=record["epoch"], position=record["to"], next_seq=record["next_seq"], tables=tables)


def _apply_table(table: TableState | None, change: Record) -> TableState:
    if "planned" in change:
        table = TableState(change["planned"]["table"], change["planned"]["plan"])
    if table is None:
        raise LedgerError(
            "The ledger has an epoch for a table that was never planned.", hint="Restore the ledger from a backup."
        )
    chunks = change.get("chunks", [])
    return replace(
        table,
        finished=table.finished | {chunk["chunk"] for chunk in chunks},
        rows_read=table.rows_read + sum(chunk["rows"] for chunk in chunks),
        changes_applied=table.changes_applied + sum(change.get("changes", {}).get("kinds", [])),
        nulled=dict(Counter(table.nulled) + nulled(change)),
        stopped=change.get("stopped", table.stopped),
    )


def nulled(change: Record) -> Counter[str]:
    """The dates that an epoch's change of one table publishes as NULL, by column."""
    parts = [*change.get("chunks", []), change.get("changes", {})]
    return sum((Counter(part.get("nulled", {})) for part in parts), Counter[str]())


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as closed ranges, so that thousands of finished chunks take a few bytes."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return out


def state_to_dict(state: State) -> Record:
    """For a full state file."""
    tables = {
        name: {
            "table": t.table,
            "plan": t.plan,
            "finished": ranges(t.finished),
            "rows_read": t.rows_read,
            "changes_applied": t.changes_applied,
            "nulled": t.nulled,
            "stopped": t.stopped,
        }
        for name, t in state.tables.items()
    }
    own = {name: getattr(state, name) for name in ("epoch", "ledger", "identity", "position", "next_seq")}
    return {**own, "tables": tables}


def state_from_dict(record: Record) -> State:
    """The inverse of `state_to_dict`."""
    tables = {}
    for name, table in record["tables"].items():
        finished = frozenset(n for first, last in table["finished"] for n in range(first, last + 1))
        tables[name] = TableState(**{**table, "finished": finished})
    return State(**{**record, "tables": tables})
