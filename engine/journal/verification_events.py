"""The journal's events of verification, and of what only verification finds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from engine.base.json_records import records_from
from engine.journal.event_fields import ForeignCommit
from engine.journal.events import Event
from engine.journal.verification_summary import Summary


@dataclass(frozen=True, kw_only=True)
class TableVerified(Event, name="table.verified"):
    """A table was compared with its source."""

    table: str
    differences: int
    """Rows that differ, as far as known."""
    summary: Summary

    def to_json(self) -> dict[str, Any]:
        """The line's fields, with the summary as in `verify/summary.json`."""
        return {**super().to_json(), "summary": self.summary.to_json()}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises TypeError if the summary is damaged."""
        return cls(**{**line, "summary": Summary.from_json(line["summary"] or {})})


@dataclass(frozen=True, kw_only=True)
class HiddenChanges(Event, name="source.hidden"):
    """Since the run began, the source can change rows unseen, lacks a setting, or differs otherwise.

    Or that is over.
    """

    kind: str
    """cascade, binlog_filter, new_tables, source_settings or source_changed."""
    table: str | None = None
    """The table whose rows a cascade changes; null for the other kinds."""
    names: Sequence[str] = ()
    """The foreign keys, the databases that the server leaves out, the tables that match but are not captured, or the
    settings with their values, or what changed. Empty: they are gone."""
    hint: str = ""
    """What to do, if it depends on the server."""
    changes: Sequence[Mapping[str, str]] = ()
    """Of source_changed: what, name, before, after, and when it was seen; required settings too."""


@dataclass(frozen=True, kw_only=True)
class ChangeLogsAudited(Event, name="audit.done"):
    """The runner has audited a random part of the change logs (`audit.background_audit`)."""

    tables: int
    """Tables with images in it."""
    images: int
    """Images that were compared."""
    differences: int
    differing: Mapping[str, int]
    """Differences by table, only of tables that have some."""
    start: str
    end: str
    """The audited part of the binlog is `(start, end]`; both are empty if nothing was compared."""
    duration_s: float
    again: str | None = None
    """The table whose differing part was audited again; null for a part that was chosen at random."""


@dataclass(frozen=True, kw_only=True)
class MirrorWritten(Event, name="mirror.written"):
    """Another program has changed rows of a mirror; or all were verified or resnapshotted since."""

    table: str
    commits: int
    """Commits by other programs since all rows were last verified or resnapshotted; 0: none any more."""
    newest: Sequence[ForeignCommit] = ()
    """The newest of those that were not journaled yet, the newest first: at most ten."""
    cleared_by: str | None = None
    """If there are none any more: verification or resnapshot."""

    def to_json(self) -> dict[str, Any]:
        """The line's fields, with the commits as objects."""
        return {**super().to_json(), "newest": [asdict(commit) for commit in self.newest]}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**line, "newest": records_from(ForeignCommit, line.get("newest"))})


@dataclass(frozen=True, kw_only=True)
class MirrorBehind(Event, name="mirror.behind"):
    """A destination has lacked committed changes of a table for too long; or it has all of them now."""

    table: str
    since: str | None = None
    """When the first of them was committed, or a resnapshot was decided, as UTC text; null: it lacks none any more."""
    epoch: int | None = None
    """The first epoch that it lacks; null if a resnapshot is due."""


@dataclass(frozen=True, kw_only=True)
class FormatBehind(Event, name="format.behind"):
    """Another format of a table, such as Iceberg, lacks commits; or it has all of them now. No row is affected."""

    table: str
    place: str = ""
    """Its folder or URL."""
    since: str | None = None
    """When the first of them was made, as UTC text; null: it lacks none any more."""
    failure: str = ""
    """Why it cannot be written; "" if it is slow."""
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class FormatWritten(Event, name="format.written"):
    """Another program has committed to a table in another format, such as Iceberg; the next commit replaced that."""

    table: str
    place: str
    """Its folder or URL."""
    commit: str
    """What was done, and by which program."""


@dataclass(frozen=True, kw_only=True)
class ChangeLogKept(Event, name="changelog.kept"):
    """A change log began again, because it cannot get the table's new columns; the earlier one is kept beside it."""

    table: str
    folder: str
    """Where it is kept."""
    until: str
    """When it ended: UTC text."""
