"""The result of an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from engine.audit.audit_limits import LIMITS
from engine.base.json_records import records_from

MOST_LISTED = 1000
"""Differences that are listed; all are counted."""
_SHOWN = 20
"""Differences that the text shows."""


@dataclass(frozen=True)
class ImageDifference:
    """One difference between the binlog and a change log (`audit_compare` has the kinds)."""

    table: str
    kind: str
    position: str
    key: Sequence[str]
    columns: Sequence[str] = ()
    """The columns that differ."""
    change_log: Mapping[str, str] = field(default_factory=dict)
    """Their values in the change log."""
    binlog: Mapping[str, str] = field(default_factory=dict)
    """Their values in the binlog."""


@dataclass(frozen=True)
class TableAudit:
    """What was compared of one table."""

    table: str
    images: int = 0
    """Images of the binlog that were compared."""
    transactions: int = 0
    start: str = ""
    """The audited range is `(start, end]`; empty if there is none."""
    end: str = ""
    version: int | None = None
    """The version of the change log."""
    differences: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Differences by kind."""
    redumped: int = 0
    """Rows of the change log that were read from the table, not from the binlog."""
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Values and images that the package cannot decode, by limit."""
    notes: Sequence[str] = ()
    """Why the range begins or ends there, and what was left out."""
    excluded: str = ""
    """Why nothing of the table was compared."""


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit."""

    tables: Sequence[TableAudit]
    differences: Sequence[ImageDifference]
    """At most MOST_LISTED of them."""
    seconds: float
    source: str
    """The server's identity."""

    @property
    def differences_total(self) -> int:
        return sum(table.differences for table in self.tables)

    @property
    def images(self) -> int:
        return sum(table.images for table in self.tables)

    @property
    def verdict(self) -> str:
        """equal, different, or nothing compared."""
        return "different" if self.differences_total else "equal" if self.images else "nothing compared"

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and the report."""
        limits = {name for table in self.tables for name in table.not_compared}
        about = {name: asdict(LIMITS[name]) for name in sorted(limits) if name in LIMITS}
        totals = {"verdict": self.verdict, "images": self.images, "differences_total": self.differences_total}
        return {**totals, **asdict(self), "limits": about}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The result that `audit --json` printed. Raises KeyError if it is none."""
        tables = records_from(TableAudit, record["tables"])
        differences = records_from(ImageDifference, record["differences"])
        return cls(tables, differences, record["seconds"], record["source"])

    def lines(self) -> list[str]:
        """The text of the command line."""
        lines = [line for table in self.tables for line in _lines(table)]
        for difference in self.differences[:_SHOWN]:
            columns = f", columns {', '.join(difference.columns)}" if difference.columns else ""
            key = ", ".join(difference.key)
            lines.append(f"{difference.table} at {difference.position}: {difference.kind}, key ({key}){columns}")
        if self.differences_total > _SHOWN:
            lines.append(f"and {self.differences_total - min(_SHOWN, len(self.differences))} more; --report lists them")
        return [
            *lines,
            f"{self.verdict}: {self.images} images, {self.differences_total} differences, {self.seconds:.1f} s",
        ]


def _lines(table: TableAudit) -> list[str]:
    if table.excluded:
        return [f"{table.table}: not compared: {table.excluded}"]
    range_text = f"from {table.start} to {table.end}"
    lines = [
        (
            f"{table.table}: {table.images} images of {table.transactions} transactions {range_text}, "
            f"{table.differences} differences"
        )
    ]
    lines += [f"  {note}" for note in table.notes]
    lines += [f"  {table.redumped} redumped rows are not in the binlog"] if table.redumped else []
    for name, count in table.not_compared.items():
        lines.append(f"  not compared: {count} × {LIMITS[name].what if name in LIMITS else name}")
    return lines
