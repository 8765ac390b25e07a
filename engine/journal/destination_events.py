"""The journal's events of the destination, and of its disk."""

from dataclasses import dataclass

from engine.journal.events import Event


@dataclass(frozen=True, kw_only=True)
class SinkApplied(Event, name="sink.applied"):
    """The destination has committed changes of a table."""

    sink: str
    table: str
    kind: str
    """append (to the change log), merge, or replace (a resnapshot replaced the mirror)."""
    through_epoch: int
    """The destination holds all epochs through this one."""
    rows: int
    files: int
    duration_s: float
    changed_bytes: int = 0
    """Of a merge: the size of the change log's files that were merged."""
    written_bytes: int = 0
    """Of a merge: the size of the files that it has written, deletion vectors included."""


@dataclass(frozen=True, kw_only=True)
class TableMaintained(Event, name="sink.maintained"):
    """A step of a table's maintenance in the destination (`engine.destination.delta.maintenance.steps`)."""

    table: str
    step: str
    """optimize, compact, expire or vacuum."""
    removed_files: int
    removed_bytes: int
    added_files: int = 0
    added_bytes: int = 0
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class SpaceMeasured(Event, name="disk.space"):
    """Written once a minute: the disk of the destination (`run.monitors.space`)."""

    folder: str
    free_bytes: int
    """What this user may still write."""
    total_bytes: int
    growth_per_day: float | None = None
    """Bytes a day, by the last day; null before an hour was measured. Negative while the disk gets emptier."""
    full_in_s: float | None = None
    """When the disk is full at this growth; null if it does not grow."""
