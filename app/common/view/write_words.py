"""What the pages say of a runner that writes nothing: by fault, the words."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from app.common.view.status_style import PIPELINE, Colour
from engine.base.write_causes import DiskFault, WriteCause, WriteFault, write_fault_of
from engine.pipeline.state_words import WRITE_ENDS
from engine.pipeline.write_outage import WriteOutage


@dataclass(frozen=True)
class WriteWords:
    """What the pages say of a fault."""

    headline: str
    what: str
    """The rest of a sentence that begins with "The"."""
    do: str
    """In a few words."""
    then: str = "The runner then continues by itself."
    """What happens when that is done."""

    @property
    def remedy(self) -> str:
        """What to do, as a sentence."""
        return f"{self.do[:1].upper()}{self.do[1:]}."


WRITE_WORDS: Mapping[WriteFault, WriteWords] = {
    "full": WriteWords("Waits for room", "disk is full", "free space on the disk"),
    "read_only": WriteWords(
        "Waits for the file system", "file system is read-only", "mount the file system read-write again"
    ),
    "forbidden": WriteWords(
        "Waits for permission",
        "runner's user may not write to a folder",
        "let the runner's user write to the folder",
    ),
    "store_refused": WriteWords(
        "Waits for credentials",
        "store of the destination refuses the credentials",
        "renew the credentials",
        "Those of a role are renewed while the runner waits, and it continues by itself. After new keys in the "
        "environment, stop the run and start it again.",
    ),
    "store_away": WriteWords(
        "Waits for the store",
        "store of the destination is away",
        "nobody must act unless it lasts",
    ),
}


@dataclass(frozen=True)
class Unwritten:
    """An outage of writing, as the runner reports it."""

    cause: WriteCause
    reason: str
    hint: str
    since: datetime | None
    attempt: int
    disk_fault: DiskFault = "full"

    @property
    def fault(self) -> WriteFault:
        """What the words depend on."""
        return write_fault_of(self.cause, self.disk_fault)

    @property
    def words(self) -> WriteWords:
        """What the pages say of it."""
        return WRITE_WORDS[self.fault]

    @property
    def colour(self) -> Colour:
        """Orange while nobody must act."""
        return PIPELINE[self.fault].colour

    @property
    def until(self) -> str:
        """What ends it, as the rest of a sentence."""
        return WRITE_ENDS[self.fault]

    @property
    def lag(self) -> str:
        """What that means for readers. The lag itself may stay small: the ledger may take changes all the same."""
        return f"the tables get no changes until {self.until}"

    @property
    def remedy(self) -> str:
        """What to do, as sentences. The runner's hint names the folder of a disk."""
        return self.hint if self.cause == "disk" and self.hint else self.words.remedy

    @property
    def line(self) -> str:
        """What happened, what to do, and what then."""
        return f"The pipeline waits: {self.reason}. {self.remedy} {self.words.then}"

    @property
    def effect(self) -> str:
        """What that means for the mirrors, until when, and what to do."""
        effect = f"The {self.words.what}: mirrors get no changes until {self.until}."
        return f"{effect} {self.remedy}" if self.cause == "disk" else effect


def unwritten_of(outage: WriteOutage | None) -> Unwritten | None:
    """An outage of writing with its time; None if there is none."""
    if outage is None:
        return None
    since = None
    with suppress(ValueError):
        since = datetime.fromisoformat(outage.since)
    return Unwritten(outage.cause, outage.reason, outage.hint, since, outage.attempt, outage.disk_fault)
