"""Which snapshots a table keeps: each commit writes what it says of all of them.

A table of changes to rows keeps the newest ones, and earlier ones ever more sparsely, so that its history reaches far
and stays short. Snapshots that only add files stay without gaps up to a number, because readers that follow a table
from snapshot to snapshot go through all of them; such readers cannot pass one that takes rows away.
"""

from collections.abc import Sequence

from engine.destination.iceberg.metadata import IcebergSnapshot

MOST = 500
"""The most snapshots without gaps."""
SPARSE = ((50, 1), (800, 16), (1 << 62, 128))
"""How far back, in sequence numbers, one of how many snapshots is kept."""


def kept(snapshots: Sequence[IcebergSnapshot]) -> list[IcebergSnapshot]:
    """The snapshots that a commit keeps, oldest first; the newest one always. snapshots: oldest first."""
    newest = snapshots[-1].sequence if snapshots else 0
    recent = snapshots[-MOST:]
    first = recent[0].sequence if recent else 0
    return [one for one in snapshots if (one.sequence >= first if one.only_adds else _is_kept(one.sequence, newest))]


def _is_kept(sequence: int, newest: int) -> bool:
    step = next(step for distance, step in SPARSE if newest - sequence <= distance)
    return sequence % step == 0
