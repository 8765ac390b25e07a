"""The `[journal]` section of a spec."""

from pydantic import field_validator

from engine.spec.periods import period_s
from engine.spec.section import Section


class JournalSettings(Section):
    """How long a pipeline keeps its history."""

    retention: str = "90d"
    """How long journals are kept, and with them the history that the console shows, such as `30d`. `forever`: they are
    never deleted. The first part of a run's journal stays while the run has younger parts."""

    @field_validator("retention")
    @classmethod
    def _period(cls, value: str) -> str:
        if value != "forever":
            period_s(value)
        return value

    @property
    def retention_s(self) -> float | None:
        """`retention` in seconds; None for ever."""
        return None if self.retention == "forever" else period_s(self.retention)
