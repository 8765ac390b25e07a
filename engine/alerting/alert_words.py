"""Messages of alerts, and what they compare. Pure."""

import re

from engine.base import clock
from engine.base.wording import utc_time
from engine.journal.events import SourceAway, SpaceMeasured
from engine.journal.outage_causes import outage
from engine.spec.alert_settings import Alerts as Settings

_AWAY_S = 30.0


def patience_s(settings: Settings) -> float:
    """How long the source may be away, or block a read, before that is an alert."""
    return min(settings.for_s, _AWAY_S)


def space_words(event: SpaceMeasured) -> str:
    """How much room a disk has, and when it is full."""
    free, full_in_s = event.free_bytes / 1e9, event.full_in_s
    when = (
        "does not fill up"
        if full_in_s is None
        else f"is full in {full_in_s / 3600:,.1f} h at the growth of the last day"
    )
    return f"The disk of {event.folder} has {free:,.1f} GB free, and {when}."


def away_words(event: SourceAway) -> str:
    """What keeps the run from its source, and for how long it waits."""
    until = f"gives up at {utc_time(event.gives_up_at)}" if event.gives_up_at else "waits without end"
    return f"{outage(event.cause)}: {event.message} The run waits for it, and {until}."


def failure_kind(message: str) -> str:
    """A failure's message without its numbers: positions, ports and times differ each time."""
    return re.sub(r"\d+", "#", message)


def seconds_between(since: str, until: str) -> float:
    """Of two times as UTC text."""
    return (clock.parse_utc(until) - clock.parse_utc(since)).total_seconds()
