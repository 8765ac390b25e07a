"""The table of a runner's states."""

import pytest

from engine.run.machine import TRANSITIONS, IllegalEventError, after


def test_every_transition_leads_to_a_state_that_exists() -> None:
    """No event leads out of the table, and every state but the last one can end."""
    for state, events in TRANSITIONS.items():
        assert set(events.values()) <= set(TRANSITIONS)
        assert state == "ended" or events["end"] == "ended"


def test_a_stop_that_comes_while_spark_starts_is_kept() -> None:
    """A runner told to stop before it runs is not started again by its own start."""
    assert after(after("starting", "stop"), "started") == "stopping"


def test_an_illegal_event_names_state_and_event() -> None:
    """And says what is possible."""
    with pytest.raises(IllegalEventError, match="'pause' is not possible while the pipeline is paused") as raised:
        after("paused", "pause")
    assert "resume" in raised.value.hint
