"""The progress of commands."""

from datetime import datetime

from app.common.view.commands import Sent, sentences
from engine.history.event_queries import CommandAnswer
from tests.unit.app.support import NOW, ago


def test_a_command_is_shown_until_it_is_done() -> None:
    """Sent, accepted, done, gone; refused and unanswered are orange."""

    def shown(age: float, *events: str) -> list[tuple[str, str]]:
        found = [CommandAnswer(NOW, "1", name, "pause", "not running", 0.4) for name in events]
        return sentences([Sent("1", "pause", ago(age))], found, since, NOW)

    since: dict[str, datetime] = {}

    assert shown(1) == [("blue", "Pause sent; waiting for the runner")]
    assert shown(15) == [("orange", "Pause sent 15 s ago; the runner has not answered yet")]
    assert shown(3, "command.accepted") == [("blue", "Pause accepted; running for 3.0 s")]
    assert shown(3, "command.accepted", "command.done") == [("green", "Pause done in 0.4 s")]
    assert shown(300, "command.done") == [("green", "Pause done in 0.4 s")], "it took long"
    since["1"] = ago(30)
    assert shown(300, "command.done") == []
    assert shown(3, "command.refused") == [("orange", "Pause was refused: not running")]
    since["1"] = ago(90)
    assert shown(90, "command.refused") == []


def test_an_open_redump_says_what_it_waits_for() -> None:
    """Its rows are committed long before the mirror has them."""
    answer = CommandAnswer(NOW, "1", "command.accepted", "redump", None, None)
    ((_, text),) = sentences([Sent("1", "redump", ago(3))], [answer], {}, NOW)
    assert text == "Redump accepted; running for 3.0 s; it is done when the mirror can be read with its rows"


def test_a_resnapshot_that_has_begun_is_not_called_done() -> None:
    """Its rows can be read when the copy is complete."""
    answer = CommandAnswer(NOW, "1", "command.done", "redump", None, 0.4, '["d.t"]')
    assert sentences([Sent("1", "redump", ago(1))], [answer], {}, NOW) == [
        (
            "blue",
            (
                "Redump: the resnapshot of d.t has begun; readers get the new rows when it is complete, "
                "the old ones until then"
            ),
        )
    ]
    two = CommandAnswer(NOW, "1", "command.done", "resume", None, 0.4, '["d.t", "d.u"]')
    ((colour, text),) = sentences([Sent("1", "resume", ago(1))], [two], {}, NOW)
    assert (colour, "the resnapshot of 2 tables has begun; readers" in text) == ("blue", True)
