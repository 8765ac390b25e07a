"""The summary of a table's verification, as the journal and `verify/summary.json` have it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from engine.base.json_records import record_from


@dataclass(frozen=True)
class Unreadable:
    """A mirror that could not be read."""

    at: str
    """When that was found: UTC text."""
    why: str
    """As a clause."""
    hint: str
    chunks: Sequence[int] = ()
    """The chunks that were read then; empty: the whole table, or rows by key."""


@dataclass(frozen=True)
class Summary:
    """The verification of one table."""

    verdict: str = ""
    """Of the last comparison: verified, diverged, unverifiable or lagging."""
    why: str = ""
    at: str = ""
    """When the part was compared whose comparison is the oldest; empty if some part was never compared."""
    last: str = ""
    """When anything of it was last compared."""
    position: str | None = None
    version: int | None = None
    """Of the mirror: the oldest at which a part was compared."""
    level: str = "rows"
    """rows; counts if the rows of some part were only counted."""
    rows: int = 0
    """Rows in the compared parts."""
    differences: int = 0
    """Rows that differ, as far as known."""
    by_kind: Mapping[str, int] = field(default_factory=dict)
    parts: int = 0
    """0 after a resnapshot, until something is compared."""
    compared: int = 0
    """Parts that were ever compared."""
    generation: int = 0
    """The table's snapshot that was compared (`ledger.state.TableState`)."""
    seconds: float = 0.0
    """How long the last comparison took."""
    unreadable: Unreadable | None = None
    """Its mirror, or a part of it, could not be read; None when it can be read again."""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The summary in `summary.json`. Raises TypeError if it is damaged."""
        summary = record_from(cls, {**record, "unreadable": record_from(Unreadable, record.get("unreadable"))})
        if summary is None:
            raise TypeError("no summary of a verification")
        return summary

    def to_json(self) -> dict[str, Any]:
        """For `summary.json` and the journal. `unreadable` is there only if the mirror cannot be read."""
        fields = dict(vars(self))  # asdict would copy deeply, and there may be thousands of them
        broken: Unreadable | None = fields.pop("unreadable")
        return fields if broken is None else {**fields, "unreadable": asdict(broken)}
