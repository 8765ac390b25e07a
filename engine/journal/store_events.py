"""The journal's events of the stores of destinations and state."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

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


@dataclass(frozen=True)
class PlaceRequests:
    """Requests to one place of a bucket."""

    place: str
    """`sink`, the name of a further sink, or `state`."""
    table: str
    """Empty for what belongs to no table."""
    puts: int
    """Writes: PUT, POST of an upload in parts, and copies."""
    lists: int
    gets: int
    """Reads: GET and HEAD."""
    deletes: int
    sent_bytes: int
    received_bytes: int

    @property
    def number(self) -> int:
        """All of them."""
        return self.puts + self.lists + self.gets + self.deletes


@dataclass(frozen=True, kw_only=True)
class StoreRequests(Event, name="store.requests"):
    """Written every ten minutes and at the end of a run: the requests to buckets since the last one."""

    requests: Sequence[PlaceRequests]

    def to_json(self) -> dict[str, Any]:
        """The fields of the line."""
        return {"requests": [asdict(one) for one in self.requests]}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises TypeError if the line has other fields."""
        return cls(requests=[PlaceRequests(**one) for one in line["requests"] or ()])
