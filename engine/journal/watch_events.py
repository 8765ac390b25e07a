"""The journal's events of the watchdog (`engine.watch`).

They are in the journal of the run that was lost or has failed.
"""

from dataclasses import dataclass

from engine.journal.events import Event


@dataclass(frozen=True, kw_only=True)
class RunnerRestarted(Event, name="watch.restarted"):
    """The watchdog has launched another runner."""

    why: str
    """What became of the run."""
    restart: int
    """How many restarts the last hour had, this one included."""
    most: int
    """How many are allowed within an hour."""
    pid: int
    host: str


@dataclass(frozen=True, kw_only=True)
class RunnerStaysDown(Event, name="watch.stays_down"):
    """The watchdog does not restart the runner, although the spec asks for restarts."""

    why: str
