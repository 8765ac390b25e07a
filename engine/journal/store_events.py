"""The journal's events of the destination's store."""

from dataclasses import dataclass

from engine.base.write_causes import WriteCause
from engine.journal.events import Event


@dataclass(frozen=True, kw_only=True)
class StoreAway(Event, name="store.away"):
    """A try to reach the store of the destination failed, or it refused the credentials."""

    since: str
    """UTC text."""
    attempt: int
    retry_in_s: float
    message: str
    hint: str = ""
    cause: WriteCause = "store_away"

    @property
    def refused(self) -> bool:
        """Whether it answers, but refuses the credentials."""
        return self.cause == "store_refused"


@dataclass(frozen=True, kw_only=True)
class StoreBack(Event, name="store.back"):
    """The store of the destination can be used again."""

    since: str
    seconds: float
