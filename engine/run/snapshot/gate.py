"""What can block chunk reads: operators, the throttle, a full disk, parked chunks."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.pipeline.disk import Disk
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.throttle import ReadPace


@dataclass(frozen=True)
class Gate:
    """Everything that can block one run's chunk reads."""

    pace: ReadPace
    parking: Parking
    disk: Disk
    is_paused: Callable[[str], bool]
    """Whether operators have paused the copy of a table."""
