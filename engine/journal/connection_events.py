"""The journal's events of the connections to the source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.journal.events import Event


@dataclass(frozen=True, kw_only=True)
class PreflightPassed(Event, name="run.preflight"):
    """The run has logged in to its source, and its preflight has passed. Spark may not be up yet."""


@dataclass(frozen=True, kw_only=True)
class ConnectionsLimited(Event, name="source.connections"):
    """The account allows fewer connections than a run usually has: from now on they are closed after each use."""

    allowed: int | None
    """How many the run uses at most."""
    readers: int
    """How many readers run at once."""


@dataclass(frozen=True, kw_only=True)
class ReadsBlocked(Event, name="source.blocked"):
    """Reads of a table wait for a lock on the source.

    Or others block them now, or they have waited long, or that is over.
    """

    table: str | None
    """Null if the source does not say which."""
    since: str | None
    """When the first of them began to wait: UTC text; null: none waits any more."""
    seconds: float = 0.0
    lock: str = ""
    """table metadata lock, table level lock or table flush."""
    reads: int = 0
    sessions: Sequence[Mapping[str, Any]] = ()
    """Who holds the lock: connection, user, host, role, lock, since, idle, statement. The statement has no literals."""
    unseen: str = ""
    """Why that is not known, or not for certain."""
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadsRefused(Event, name="source.refused"):
    """The source has refused to read rows of a table for lack of a privilege, or that is over."""

    table: str
    since: str | None
    """When it first refused: UTC text; null: it does not refuse any more, or the table is not to be read."""
    message: str = ""
    hint: str = ""
    """The statement that grants the privilege."""
