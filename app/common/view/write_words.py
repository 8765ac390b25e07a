"""What the pages say of a runner that writes nothing: by cause, the words and the colour."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from app.common.view.status_style import Colour
from engine.base.write_causes import WriteCause
from engine.pipeline.write_outage import WriteOutage


@dataclass(frozen=True)
class WriteWords:
    """What the pages say of a cause."""

    headline: str
    colour: Colour
    """Orange while nobody must act."""
    what: str
    """The rest of a sentence that begins with "The"."""
    until: str
    """The rest of a sentence about when it continues."""
    lag: str
    do: str
    """In a few words."""

    @property
    def remedy(self) -> str:
        """What to do, as a sentence."""
        return f"{self.do[:1].upper()}{self.do[1:]}."


WRITE_WORDS: Mapping[WriteCause, WriteWords] = {
    "disk": WriteWords(
        "Waits for room",
        "red",
        "disk is full",
        "there is room",
        "the lag grows until there is room on the disk",
        "free space on the disk",
    ),
    "store_refused": WriteWords(
        "Waits for credentials",
        "red",
        "store of the destination refuses the credentials",
        "it accepts them",
        "the lag grows until the store accepts the credentials",
        "renew the credentials",
    ),
    "store_away": WriteWords(
        "Waits for the store",
        "orange",
        "store of the destination is away",
        "it answers",
        "the lag grows until the store answers",
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

    @property
    def words(self) -> WriteWords:
        """What the pages say of it."""
        return WRITE_WORDS[self.cause]

    @property
    def line(self) -> str:
        """What happened, what to do, and that it continues."""
        return f"The pipeline waits: {self.reason}. {self.words.remedy} It then continues by itself."


def unwritten_of(outage: WriteOutage | None) -> Unwritten | None:
    """An outage of writing with its time; None if there is none."""
    if outage is None:
        return None
    since = None
    with suppress(ValueError):
        since = datetime.fromisoformat(outage.since)
    return Unwritten(outage.cause, outage.reason, outage.hint, since, outage.attempt)
