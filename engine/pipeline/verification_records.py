"""The records of verification, and their JSON: the only place that knows the keys of the files (`verifications`).

`to_json` gives what `from_json` reads, and reads what earlier versions wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from engine.base.json_records import record_from, records_from

DifferenceKind = Literal["missing", "extra", "different", "duplicate"]


@dataclass(frozen=True)
class Difference:
    """A row that differs."""

    kind: DifferenceKind
    key: tuple[str, ...]
    """The values of the primary key as text, in its order."""
    columns: tuple[str, ...] = ()
    """Of a different row: the columns that differ."""
    cause: str = ""
    source: Mapping[str, Any] | None = None
    """The row as published from the source; None if the source has none."""
    mirror: Mapping[str, Any] | None = None
    chunk: int | None = None
    """The chunk that it was found in; None if unknown."""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The difference in `tables/<table>.json`. Raises KeyError or TypeError if it is damaged."""
        difference = record_from(cls, {**record, "key": tuple(record["key"]), "columns": tuple(record["columns"])})
        if difference is None:
            raise TypeError("no difference of a row")
        return difference

    def to_json(self) -> dict[str, Any]:
        """For `tables/<table>.json`."""
        return {**vars(self), "key": list(self.key), "columns": list(self.columns)}

    def to_line(self) -> dict[str, Any]:
        """As in `verify --json`: without the rows."""
        return {"kind": self.kind, "key": list(self.key), "columns": list(self.columns), "cause": self.cause}


@dataclass(frozen=True)
class PartState:
    """The last comparison of a part."""

    chunk: int | None
    lower: str | None
    upper: str | None
    at: str = ""
    """When it was compared: UTC text; empty if it was not yet."""
    rows: int = 0
    differences: int = 0
    position: str | None = None
    version: int | None = None
    level: str = "rows"
    """counts or rows."""


@dataclass(frozen=True)
class Details:
    """The parts of one table, and the rows that differ."""

    table: str
    complete: bool = False
    """Whether the parts cover the table."""
    parts: Sequence[PartState] = ()
    differences: Sequence[Difference] = ()
    """At most a thousand."""

    @classmethod
    def from_json(cls, table: str, record: Mapping[str, Any]) -> Self:
        """The details in `tables/<table>.json`. Raises KeyError or TypeError if they are damaged."""
        parts = records_from(PartState, record["parts"])
        if len(parts) < len(record["parts"]):
            raise TypeError("no part of a table")
        return cls(table, bool(record["complete"]), parts, tuple(map(Difference.from_json, record["differences"])))

    def to_json(self) -> dict[str, Any]:
        """For `tables/<table>.json`."""
        parts, differences = [asdict(part) for part in self.parts], [one.to_json() for one in self.differences]
        return {"table": self.table, "complete": self.complete, "parts": parts, "differences": differences}


@dataclass(frozen=True)
class LastAudit:
    """The runner's last audit of a random part of the change logs."""

    at: str
    """When it ended: UTC text."""
    tables: int
    images: int
    differences: int
    start: str
    end: str
    """The audited part of the binlog; both are empty if nothing was compared."""
    differing: Mapping[str, Sequence[str]]
    """By table, start and end of the part in which its change log differed and may differ still."""
    generations: Mapping[str, int]
    """The snapshots of these tables then (`ledger.state.TableState`), as far as known."""
    server: str
    """The identity of the server whose binlog it was; empty if it is not known."""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The audit in `audit.json`. Raises KeyError, TypeError, ValueError or AttributeError if it is damaged."""
        return cls(
            at=record["at"],
            tables=int(record["tables"]),
            images=int(record["images"]),
            differences=int(record["differences"]),
            start=str(record["start"]),
            end=str(record["end"]),
            differing={name: (str(start), str(end)) for name, (start, end) in record["differing"].items()},
            generations={name: int(number) for name, number in record.get("generations", {}).items()},
            server=str(record.get("server", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """For `audit.json`."""
        return asdict(self)


@dataclass(frozen=True)
class ForeignChanges:
    """What other programs have changed in a mirror since all its rows were last verified or resnapshotted."""

    commits: int
    version: int
    """Of the newest of these commits."""


@dataclass(frozen=True)
class MirrorLogs:
    """How far the runner has read the mirrors' Delta logs, and what other programs have changed.

    The changed mirrors are given by table.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    foreign: Mapping[str, ForeignChanges] = field(default_factory=dict)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The logs in `mirrors.json`. Raises KeyError, TypeError, ValueError or AttributeError if they are damaged."""
        foreign = {
            name: ForeignChanges(int(one["commits"]), int(one["version"])) for name, one in record["foreign"].items()
        }
        return cls(dict(record["versions"]), foreign)

    def to_json(self) -> dict[str, Any]:
        """For `mirrors.json`."""
        return asdict(self)
