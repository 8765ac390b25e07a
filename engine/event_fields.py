"""Fields of journal events that are objects of their own."""

from typing import TypedDict


class SourceFacts(TypedDict):
    """The server that a run has connected to."""

    server: str
    """The version as the server writes it."""
    version: str
    flavor: str
    uuid: str
    watermark_class: str


class SparkFacts(TypedDict):
    """The Spark session of a run."""

    master: str
    ui: str | None
    version: str
    slots: int


class Backfill(TypedDict):
    """What the binlog between its watermarks changed in a chunk."""

    changes: int
    deleted: int
    upserted: int


class ForeignCommit(TypedDict):
    """A Delta commit by which another program changed rows of a mirror."""

    version: int
    operation: str
    """In Delta's terms: WRITE, DELETE, …"""
    author: str
    """The user, if the commit names one; else the program."""
    at: str
