"""Journal entries for tests that need few of an event's fields; the others are null."""

from typing import Any

from engine.journal import Entry, entry_from
from engine.journal.event_lines import event_from
from engine.journal.events import Event, fields_of


def event(name: str, **values: Any) -> Event:
    """An event by its name. Fails for a field that it does not have."""
    assert set(values) <= set(fields_of(name)), name
    made = event_from(name, values)
    assert made is not None
    return made


def entry(name: str, ts: str, **values: Any) -> Entry:
    """The first line of a run `r`."""
    return Entry("r", 1, ts, event(name, **values))


def entry_of(line: dict[str, Any]) -> Entry:
    """A line that was read back. Fails for an unknown event."""
    made = entry_from(line)
    assert made is not None
    return made
