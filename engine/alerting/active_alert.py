"""An active alert, as the file of active alerts has it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_OWN = ("announced", "held", "changed", "routes")
"""What only the file of active alerts has."""
Name = tuple[str, str | None]
"""An alert's kind and, if it concerns one, its table."""


@dataclass(frozen=True)
class Alert:
    """An active alert."""

    kind: str
    table: str | None
    value: float | None
    threshold: float | None
    message: str
    hint: str
    since: str
    announced: str
    """`since` is when its cause began, `announced` when it was last announced: UTC text."""
    repeat: int = 0
    """How often it was repeated."""
    held: bool = False
    """Whether no route knows it, because a silence covered it."""
    changed: bool = False
    """Whether routes know only an earlier state of it, because a silence covers the present one."""
    routes: Sequence[str] = ()
    """Of `route_unreachable`: the routes that fail."""

    @property
    def name(self) -> Name:
        """The name that clears it."""
        return self.kind, self.table

    def fields(self) -> dict[str, Any]:
        """Its fields for the journal and the routes."""
        return {name: value for name, value in asdict(self).items() if name not in _OWN}
