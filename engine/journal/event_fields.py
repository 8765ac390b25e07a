"""Fields of journal events that are objects of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFacts:
    """The server that a run has connected to; empty where a journal lacks a field."""

    server: str = ""
    """The version as the server writes it."""
    version: str = ""
    flavor: str = ""
    uuid: str = ""
    watermark_class: str = ""


@dataclass(frozen=True)
class SparkFacts:
    """The Spark session of a run; empty where a journal lacks a field."""

    master: str = ""
    ui: str | None = None
    version: str = ""
    slots: int = 0


@dataclass(frozen=True)
class Backfill:
    """What the binlog between its watermarks changed in a chunk."""

    changes: int = 0
    """Images."""
    deleted: int = 0
    """Keys."""
    upserted: int = 0
    """Keys."""


@dataclass(frozen=True)
class ForeignCommit:
    """A commit by which another program changed rows of a mirror; null where a journal of another version lacks it."""

    version: int | None = None
    operation: str | None = None
    """In the destination's terms, for Delta: WRITE, DELETE, …"""
    author: str | None = None
    """The user, if the commit names one; else the program."""
    at: str | None = None
    """UTC text."""


@dataclass(frozen=True)
class LockSession:
    """A session that holds a lock, or may, of `source.blocked`; null where a journal lacks a field."""

    connection: int | None = None
    user: str | None = None
    host: str | None = None
    role: str | None = None
    """holds, waits or may hold."""
    lock: str | None = None
    since: str | None = None
    """Since when it has executed its statement, or been idle: UTC text."""
    idle: bool | None = None
    statement: str | None = None


def without_redumps(kinds: Mapping[str, Sequence[int]], redumped: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """An epoch's changes in the source's binlog, by table and kind: those of redumps are no changes of the source."""
    none = (0, 0, 0, 0)
    return {
        name: [n - again for n, again in zip(counts, redumped.get(name, none), strict=True)]
        for name, counts in kinds.items()
    }
