"""The journal's events of the connections to the source."""

from dataclasses import dataclass

from engine.events import Event


@dataclass(frozen=True, kw_only=True)
class ConnectionsLimited(Event, name="source.connections"):
    """The account allows fewer connections than a run usually has: from now on they are closed after each use."""

    allowed: int | None
    """How many the run uses at most."""
    readers: int
    """How many readers run at once."""
