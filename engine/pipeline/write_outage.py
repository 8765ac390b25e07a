"""An outage of writing, as `runner.json` has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from engine.base.json_records import record_from
from engine.base.write_causes import WRITE_ALERTS, DiskFault, WriteCause, WriteFault, write_fault_of


@dataclass(frozen=True)
class WriteOutage:
    """Why a live run writes nothing."""

    cause: WriteCause
    reason: str
    """In a few words, then the error."""
    hint: str = ""
    """What to do."""
    since: str = ""
    """UTC text."""
    attempt: int = 0
    """Failures so far."""
    disk_fault: DiskFault = "full"
    """For the cause `disk`."""

    @property
    def fault(self) -> WriteFault:
        """What the words for it depend on."""
        return write_fault_of(self.cause, self.disk_fault)

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Self | None:
        """That of a `runner.json`, also of one of an earlier version; None if nothing is out."""
        outage = record.get("write_outage")
        if isinstance(outage, Mapping):
            return record_from(cls, outage) if outage.get("cause") in WRITE_ALERTS else None
        if not isinstance(reason := record.get("disk_full"), str):
            return None
        hint, since = (str(record.get(f"disk_full_{name}") or "") for name in ("hint", "since"))
        return cls(_earlier_cause(reason), reason, hint, since)


def _earlier_cause(reason: str) -> WriteCause:
    if reason.startswith("store of the destination refuses"):
        return "store_refused"
    return "store_away" if reason.startswith("store") else "disk"
