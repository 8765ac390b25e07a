"""What several pipelines can be asked to do."""

import pytest

from app.common.view.status_style import PIPELINE
from app.pipelines.view.bulk_acts import acts, can
from tests.unit.app.support import runner

LIVE = ("running", "starting", "paused", "stopping")


def test_each_act_names_those_it_changes_and_those_it_does_not() -> None:
    """Before anything is sent."""
    found = acts(
        {"a": runner("running"), "b": runner("paused"), "c": runner("ended", alive=False), "d": runner("running")}
    )
    assert [(act.verb, act.names) for act in found] == [("pause", ("a", "d")), ("start", ("c",)), ("resume", ("b",))]
    assert found[0].button == "Pause a and d"
    assert found[0].sentences[0].startswith("Pause a, d. Reading stops")
    assert found[0].sentences[1] == "Unchanged: b (paused), c (stopped)."
    assert acts({}) == []


def test_a_long_list_is_named_beside_the_button() -> None:
    """The button counts them."""
    (act,) = acts({name: runner("running") for name in "abcde"})
    assert act.button == "Pause 5 pipelines"
    assert act.sentences == [act.sentences[0]]
    assert act.sentences[0].startswith("Pause a, b, c, d, e. ")


@pytest.mark.parametrize("state", PIPELINE)
def test_no_state_has_two_acts(state: str) -> None:
    """A runner that starts or stops is not started again."""
    one = runner(state, alive=state in LIVE)
    assert sum(can(verb, one) for verb in ("pause", "start", "resume")) <= 1
    assert not can("start", runner("starting", alive=False))
