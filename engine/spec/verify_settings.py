"""The `[verify]` section of a spec."""

from pydantic import Field, field_validator

from engine.spec.periods import period_s
from engine.spec.section import Section

OFF = "off"


class Verify(Section):
    """Continuous verification: the runner compares mirrors with the source, the part first that was compared longest
    ago.
    """  # noqa: D205 - one sentence, as the reference has it

    period: str = "7d"
    """How often every row is compared, spread evenly. `off`: only when you run `verify`."""
    share: float = Field(0.05, gt=0, le=1)
    """The largest share of the time in which the runner reads for it, on one connection. It may make the period longer.
    """

    audit: str = OFF
    """How often the runner audits a random part of the change logs, like `1d`, in a process of low priority. `off`:
    only when you run `audit`."""

    @field_validator("period", "audit")
    @classmethod
    def _period(cls, value: str) -> str:
        if value != OFF:
            period_s(value)
        return value

    @property
    def period_s(self) -> float:
        """The period in seconds; that of seven days if it is off, as the age at which a verification is stale."""
        return period_s("7d" if self.period == OFF else self.period)

    @property
    def audit_s(self) -> float | None:
        """The period of the audits in seconds; None if they are off."""
        return None if self.audit == OFF else period_s(self.audit)
