"""Runs that timers of a page have asked for which was left meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

from app.common import page_switch


@pytest.mark.parametrize(
    ("request_of", "runs"),
    [
        ({"page_script_hash": "new", "is_auto_rerun": True, "fragment_id_queue": ["f"]}, True),
        ({"page_script_hash": "old", "is_auto_rerun": True, "fragment_id_queue": ["f"]}, False),
        ({"page_script_hash": "old", "is_auto_rerun": False, "fragment_id_queue": ["f"]}, True),
        ({"page_script_hash": "old", "is_auto_rerun": False, "fragment_id_queue": []}, True),
    ],
)
def test_only_a_timer_of_another_page_is_skipped(request_of: dict[str, Any], runs: bool) -> None:
    """A click, and a switch to another page, are never."""
    seen = list[RerunData]()
    runner: Any = SimpleNamespace(_get_script_run_ctx=lambda: SimpleNamespace(page_script_hash="new"))
    page_switch.unless_left(lambda _, request: seen.append(request))(runner, RerunData(**request_of))
    assert bool(seen) == runs


def test_it_is_set_up_once() -> None:
    """Each run of the script asks for it."""
    page_switch.keep_page()
    once = ScriptRunner._run_script
    page_switch.keep_page()
    assert ScriptRunner._run_script is once
