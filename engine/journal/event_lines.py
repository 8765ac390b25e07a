"""Events that are read back from journal lines, also from those of earlier and later versions."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

import engine.journal.alert_events
import engine.journal.connection_events
import engine.journal.destination_events
import engine.journal.store_events
import engine.journal.verification_events
import engine.journal.watch_events  # noqa: F401 - these add their events to EVENTS
from engine.journal.events import EVENTS, Event, fields_of


@cache
def _defaults(name: str) -> dict[str, Any]:
    """The fields that a line of an earlier version may lack, as null."""
    return {one.name: None for one in fields(EVENTS[name]) if one.default is MISSING and one.default_factory is MISSING}


def event_from(name: str, body: Mapping[str, Any]) -> Event | None:
    """The event of a line that was read back; None if this version does not know it."""
    if (kind := EVENTS.get(name)) is None:
        return None
    return kind.from_json(_defaults(name) | {one: body[one] for one in fields_of(name) if one in body})
