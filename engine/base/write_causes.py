"""Why nothing can be written now: a disk that takes no files, a store that does not answer, one that refuses."""

from collections.abc import Mapping
from typing import Literal

from engine.base.errors import (
    DiskFullError,
    StoreRefusedError,
    StoreUnreachableError,
    WriteOutageError,
    is_store_away,
    is_store_refused,
)

WriteCause = Literal["disk", "store_away", "store_refused"]
DiskFault = Literal["full", "read_only", "forbidden"]
"""What is wrong with a disk: it has no room, takes no writes at all, or not those of this user."""
WriteFault = Literal[DiskFault, "store_refused", "store_away"]
"""What the words for an outage depend on."""
WRITE_ERRORS: Mapping[WriteCause, type[WriteOutageError]] = {
    "disk": DiskFullError,
    "store_refused": StoreRefusedError,
    "store_away": StoreUnreachableError,
}
"""The worst cause first: that on which an operator must act."""
WRITE_ALERTS: Mapping[WriteCause, str] = {
    "disk": "disk_full",
    "store_refused": "store_refused",
    "store_away": "store_away",
}
"""The kind of alert for each cause."""


def write_cause(error: BaseException) -> WriteCause:
    """The cause of an error that is one of writing."""
    if is_store_refused(error):
        return "store_refused"
    return "store_away" if is_store_away(error) else "disk"


def write_fault_of(cause: WriteCause, disk_fault: DiskFault) -> WriteFault:
    """What the words for an outage depend on; `disk_fault` counts for a disk only."""
    return disk_fault if cause == "disk" else cause
