"""What may keep chunks from being read: operators, the throttle, a full disk, chunks that failed too often."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.run.disk import Disk
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.throttle import Pace


@dataclass(frozen=True)
class Gate:
    """All of it, for one run."""

    pace: Pace
    parking: Parking
    disk: Disk
    is_paused: Callable[[str], bool]
    """Whether operators have paused the copy of a table."""
