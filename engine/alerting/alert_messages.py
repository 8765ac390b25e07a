"""Messages of alerts, and what they compare. Pure."""

import re
from typing import NamedTuple

from engine.base import clock
from engine.base.wording import utc_time
from engine.base.write_causes import WRITE_ALERTS
from engine.journal.destination_events import SpaceMeasured
from engine.journal.events import SourceAway
from engine.journal.outage_causes import ALERTS as OUTAGES
from engine.journal.outage_causes import outage, replaced_by, unwritten
from engine.journal.store_events import StoreAway
from engine.spec.alert_settings import Alerts as Settings

_AWAY_S = 30.0
OF_STORE = ("store_away", "store_refused")
"""The kinds of alerts about the destination's store."""


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


class OutageAlert(NamedTuple):
    """The alert on an outage."""

    kind: str
    others: tuple[str, ...]
    """The kinds for other causes, which it replaces."""
    text: str
    replaced: str
    """Why the alerts for other causes end."""


def outage_alert(event: SourceAway | StoreAway) -> OutageAlert:
    """The alert on an outage of the source, or of the destination's store."""
    if isinstance(event, StoreAway):
        kind, text = WRITE_ALERTS[event.cause], store_words(event)
        return OutageAlert(kind, tuple(one for one in OF_STORE if one != kind), text, text)
    kind = OUTAGES[event.cause]
    others = tuple(one for one in OUTAGES.values() if one != kind)
    return OutageAlert(kind, others, away_words(event), replaced_by(event.cause))


def away_words(event: SourceAway) -> str:
    """What keeps the run from its source, and for how long it waits."""
    until = f"gives up at {utc_time(event.gives_up_at)}" if event.gives_up_at else "waits without end"
    return f"{outage(event.cause)}: {event.message} The run waits for it, and {until}."


def store_words(event: StoreAway) -> str:
    """What keeps the run from the store of its destination."""
    return f"{unwritten(event.cause)}: {event.message} The run waits for it without end."


def failure_kind(message: str) -> str:
    """A failure's message without its numbers: positions, ports and times differ each time."""
    return re.sub(r"\d+", "#", message)


def seconds_between(since: str, until: str) -> float:
    """Of two times as UTC text."""
    return (clock.parse_utc(until) - clock.parse_utc(since)).total_seconds()
