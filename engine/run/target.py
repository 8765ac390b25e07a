"""What the publisher knows of one table: which epochs its destination has, what waits for a merge, what it lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.capture.files import DataFile
from engine.errors import TidemarkError
from engine.ledger.state import Record
from engine.sink.delta import DeltaTables

Part = tuple[int, Record]
"""An epoch's number and what its record says of one table."""


@dataclass
class Held:
    """A resnapshot, from an epoch on. The mirror keeps the old copy until the last chunk is there."""

    epoch: int
    parts: list[Part] = field(default_factory=list)


@dataclass
class Target:
    """One table's destination.

    moving: whether its rows move between chunks; everything is then merged before a chunk is added (`capture.carry`).
    applied: the last epoch whose chunks, changes and merge it has.
    waiting: change files that no merge has taken yet, with their epochs.
    held: while the table is resnapshotted.
    error: why nothing more is written to it.
    lacking: what was committed since.
    """

    delta: DeltaTables
    moving: bool
    applied: dict[str, int]
    waiting: list[tuple[int, DataFile]] = field(default_factory=list)
    held: Held | None = None
    error: TidemarkError | None = None
    lacking: list[Part] = field(default_factory=list)

    @property
    def needed(self) -> set[int]:
        """Epochs that the ledger must keep for it."""
        epochs = {epoch for epoch, _ in (*self.lacking, *self.waiting)}
        return epochs | ({self.held.epoch, *(epoch for epoch, _ in self.held.parts)} if self.held else set())


def switches(change: Record) -> list[Record]:
    """What an epoch's record of a table says of new columns, or of a new copy."""
    return [change[kind] for kind in ("altered", "again") if kind in change]


def files_of_parts(parts: Sequence[Part]) -> tuple[list[tuple[int, DataFile]], list[tuple[int, DataFile]]]:
    """The files of chunks and those of changes, with their epochs."""
    chunks = [(epoch, f) for epoch, part in parts for chunk in part.get("chunks", []) for f in chunk["files"]]
    changes = [(epoch, f) for epoch, part in parts for f in part.get("changes", {}).get("files", [])]
    return [(epoch, DataFile(**f)) for epoch, f in chunks], [(epoch, DataFile(**f)) for epoch, f in changes]
