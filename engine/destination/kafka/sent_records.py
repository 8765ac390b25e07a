"""The records of the state topic that tell of a table (`state_topic` lists all)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class _SentRecord:
    @classmethod
    def from_json(cls, record: Mapping[str, Any] | None) -> Self:
        """As stored; without one, what a new table has."""
        return cls(**record) if record else cls()

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        return asdict(self)


@dataclass(frozen=True)
class SentChanges(_SentRecord):
    """Which changes of a table its topic has."""

    epoch: int = -1
    """The last epoch of them."""
    largest_seq: int = 0
    generation: int = 0
    """Counts the resnapshots."""
    begun: int = -1
    """The epoch after which the generation began; -1 for the first one."""
    completed: int = -1
    """The epoch with which the last copy was complete, and the keys that it lacks were deleted."""


@dataclass(frozen=True)
class SentChunks(_SentRecord):
    """Which rows of its copies its topic has."""

    epoch: int = -1
    """The last epoch whose rows are complete."""
    files: Mapping[str, int] = field(default_factory=dict)
    """How many rows it has of files of later epochs, by name."""


@dataclass(frozen=True)
class UsedTopic(_SentRecord):
    """The topic of a table."""

    topic: str = ""
    """Its name; "" if the table has none yet."""
    id: str = ""
    """What tells it from a later one of its name."""
    generation: int = 0
    """The last generation of messages in it, whatever the count of epochs."""
