"""Which mirrors lack committed changes, by the ledger and what readers of the destination see.

The publisher's memory is not asked: what it forgot, or what keeps it from writing, would go unnoticed with it.

The ledger has the epochs that the destination is known to have, but learns them with the next commit. So a table that
lacks an epoch by the ledger is looked up in the destination. A table that is being copied lacks nothing that its mirror
should have; its change log may lack changes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.decode.schema import table_from_dict
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE, Destination
from engine.ledger.records import NOTHING, EpochRecord, TableChange
from engine.ledger.state import Owner, State, TableState


@dataclass(frozen=True)
class MissingEpochs:
    """What a table's destination lacks."""

    since: str
    """When the first epoch that it lacks was committed, or its resnapshot decided: UTC text."""
    epoch: int | None
    """That epoch; None if a resnapshot is due."""


def find_missing_epochs(
    destination: Callable[[], Destination], state: State, records: Sequence[EpochRecord], before: str
) -> dict[str, MissingEpochs]:
    """By table, what its destination has lacked since before a time. Tables that have stopped are left out.

    destination: called only if a table lacks an epoch by the ledger. records: the ledger's epochs, in order.
    before: UTC text.
    """
    old_records = [record for record in records if record.ts < before]
    joins = {name: record.epoch for record in records for name, part in record.tables.items() if part.planned}
    missing_epochs = {}
    for name, table in state.tables.items():
        if table.stopped:
            continue
        if table.due is not None and table.due.at < before:
            missing_epochs[name] = MissingEpochs(table.due.at, None)
            continue
        own_records = [record for record in old_records if record.epoch >= joins.get(name, -1)]  # not an earlier life's
        if (first := _first(destination, state.owner, name, table, own_records)) is not None:
            missing_epochs[name] = MissingEpochs(first.ts, first.epoch)
    return missing_epochs


def _first(
    destination: Callable[[], Destination], owner: Owner, name: str, table: TableState, records: Sequence[EpochRecord]
) -> EpochRecord | None:
    """The first epoch that the destination lacks; None if it has all."""
    for kind in _kinds(table):
        newer = _with(name, kind, records, max(table.applied.get(kind, -1), owner.floor))
        if next(newer, None) is None:
            continue
        from engine.capture.projection.table_projection import published_as  # seldom needed, and loads Arrow

        published_table = published_as(table_from_dict(table.table), table.projection)
        applied = destination().table(owner, published_table).last_epoch(kind)
        first = next(_with(name, kind, records, max(applied, owner.floor)), None)
        if first is not None:
            return first
    return None


def _kinds(table: TableState) -> tuple[str, ...]:
    if not table.table.get("key"):
        return CHANGES, CHUNKS
    return (CHANGES, MERGE, CHUNKS) if table.copied else (CHANGES,)


def _with(name: str, kind: str, records: Iterable[EpochRecord], after: int) -> Iterator[EpochRecord]:
    """The later epochs that a destination must have applied by this kind of commit."""
    for record in records:
        if record.epoch > after and _has(record.tables.get(name, NOTHING), kind):
            yield record


def _has(part: TableChange, kind: str) -> bool:
    if kind == CHUNKS:
        return any(chunk.files for chunk in part.chunks)
    return bool(part.change_files)
