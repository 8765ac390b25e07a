"""The `[watch]` section of a spec."""

from typing import Literal

from pydantic import Field

from engine.spec.section import Section


class Watch(Section):
    """What the watchdog, which is the console or `tidemark watch`, does about a runner that was lost or has failed."""

    restart: Literal["never", "on-failure"] = "never"
    """`on-failure`: start the pipeline again, unless somebody stopped it or the error needs an operator."""
    first_delay_s: float = Field(5.0, ge=0)
    """The pause before a restart. It doubles with each restart of the last hour."""
    longest_delay_s: float = Field(300.0, ge=0)
    """The longest pause before a restart."""
    max_restarts_per_hour: int = Field(6, ge=1)
    """After so many restarts within an hour, the pipeline stays down, and an alert says so."""
