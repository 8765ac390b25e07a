"""When a bounded run ends."""

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

from engine.run.lifecycle.coordinator import Coordinator
from engine.source.positions import Position

HERE = Position("b.000001", 4)


@dataclass
class Inbox:
    """A command arrives while the publisher drains its queue; an epoch answers it."""

    arrived: bool = False
    accepted: bool = False

    def drain(self) -> None:
        """The publisher's: it takes time."""
        self.arrived = True

    def poll(self) -> None:
        """Take what has arrived."""
        self.accepted = self.arrived

    @property
    def is_copied(self) -> bool:
        """Whether no command waits."""
        return not self.accepted


def test_a_run_that_has_caught_up_does_not_leave_a_command_behind() -> None:
    """It came after the last look at the inbox, while the last epoch was published."""
    inbox = Inbox()
    parts: dict[str, Any] = dict.fromkeys((one.name for one in fields(Coordinator)), SimpleNamespace())
    publisher = SimpleNamespace(drain=inbox.drain, tables=SimpleNamespace(failed_tables=set))
    parts |= {"publisher": publisher, "intake": inbox, "work": inbox, "epochs": SimpleNamespace(position=HERE)}
    coordinator = Coordinator(**parts)
    assert not coordinator._reached("caught-up", HERE)
    inbox.accepted, publisher.drain = False, lambda: None
    inbox.arrived = False
    assert coordinator._reached("caught-up", HERE)
