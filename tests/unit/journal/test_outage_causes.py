"""What is said of an outage, by its cause."""

import pytest

from engine.journal.outage_causes import ALERTS, Cause, outage, over_when, replaced_by


@pytest.mark.parametrize("cause", ALERTS)
def test_a_source_that_refuses_is_not_one_that_does_not_answer(cause: Cause) -> None:
    """Nobody waits for an answer that was given."""
    said = f"{outage(cause)} {over_when(cause)} {replaced_by(cause)}"
    assert ("answer" in said) == (cause == "unreachable")
    assert over_when(cause).startswith("When the ")
