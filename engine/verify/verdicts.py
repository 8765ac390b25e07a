"""The results of a verification (docs/verification.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from engine.capture.projection.projection_rules import has_other_rules
from engine.ledger.state import TableState
from engine.pipeline.table_verdict import NEVER_COMPARED
from engine.pipeline.verification_records import Difference
from engine.plan.keys import Bound
from engine.spec.settings import Spec

VerdictText = Literal["verified", "diverged", "unverifiable", "lagging"]
Level = Literal["counts", "rows"]
LEVELS: dict[str, Level] = {"counts": "counts", "checksum": "rows", "rows": "rows"}
"""By what can be asked for, the level that runs. Checksums are no level of their own: the server needs as long to
compute them as to send the rows, or longer; rows are compared as they are (docs/benchmarks.md)."""
MOST_LISTED = 1000
"""Differences listed per table; all are counted."""


class Incomparable(Exception):  # noqa: N818 - a verdict, not an error
    """A table cannot be compared now (`lagging`) or at all (`unverifiable`)."""

    def __init__(self, verdict: VerdictText, why: str) -> None:
        super().__init__(why)
        self.verdict: VerdictText = verdict
        self.why = why


def require_same_rules(spec: Spec, table_state: TableState) -> None:
    """Raises Incomparable if the spec publishes other rows or columns of a table than its mirror has."""
    if has_other_rules(spec, table_state):
        why = "the spec publishes other rows or columns than the mirror has, until the table is resnapshotted"
        raise Incomparable("unverifiable", why)


@dataclass(frozen=True)
class PartResult:
    """A compared range of the chunk key."""

    chunk: int | None
    """The chunk's number; None if the range is none of the last copy's chunks."""
    lower: str | None
    upper: str | None
    rows: int
    differences: int


@dataclass(frozen=True)
class TableResult:
    """The result for one table."""

    table: str
    verdict: VerdictText
    why: str = ""
    """Why it is unverifiable or lagging, as a clause."""
    hint: str = ""
    """What to do; only if its mirror cannot be read."""
    position: str | None = None
    """The mirror has all changes up to here, and was compared at or after it: `file:offset`."""
    version: int | None = None
    """The version of the mirror, as its comparison began."""
    level: Level = "rows"
    rows: int = 0
    """Rows of the source that were compared."""
    differences: tuple[Difference, ...] = ()
    """At most `MOST_LISTED`."""
    differences_total: int = 0
    by_kind: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[PartResult, ...] = ()
    whole: bool = True
    """Whether the whole table was compared, not a sample or a part."""
    keys: tuple[Bound, ...] | None = None
    """The keys of all differences; None if they cannot name rows, or are too many."""
    scope: str = ""
    """The part that was compared, in words; empty for the whole table."""
    at: str = ""
    """When the comparison ended: UTC text."""
    seconds: float = 0.0

    def as_dict(self, *, parts: bool = False) -> dict[str, Any]:
        """As in `verify --json`."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("parts", "differences", "keys")}
        fields["differences"] = [one.to_line() for one in self.differences]
        if parts:
            fields["parts"] = [asdict(part) for part in self.parts]
        return fields


def worst(results: Sequence[TableResult]) -> VerdictText:
    """The verdict of all tables together."""
    order: tuple[VerdictText, ...] = ("diverged", "lagging", "unverifiable")
    return next((verdict for verdict in order if any(one.verdict == verdict for one in results)), "verified")


def not_compared(results: Sequence[TableResult]) -> list[TableResult]:
    """The results that prove nothing, because something could not be compared.

    Tables that the spec or their plan leaves without a mirror to compare count only if there are no others.
    """
    comparable = [one for one in results if one.why not in NEVER_COMPARED]
    return [one for one in comparable or results if one.verdict in ("lagging", "unverifiable")]
