"""The timeline on Live, of runners that write no events for a while."""

from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.support.simulation import SimulatedTable, Simulation, real_now

TABLES = [SimulatedTable("shop.orders", 9_000_000, 180)]
SILENT_S = 25
"""Since the last event."""


def page(root: str) -> None:
    """The timeline as a page."""
    from pathlib import Path

    import streamlit as st

    from app.live import timeline_section
    from engine.pipeline.directory import Directory

    vars(timeline_section)["plot"] = lambda _figure, _key, sentence, _clicked: st.caption(sentence)
    timeline_section.live(Directory(Path(root)), 300)


@pytest.mark.parametrize("starting", [True, False])
@pytest.mark.parametrize("alive", [True, False])
def test_a_silent_runner_that_is_alive_still_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starting: bool, alive: bool
) -> None:
    """It starts, or its source is away: the next event may be half a minute away.

    "no runner" is only said of one that is gone.
    """
    st.cache_resource.clear()  # the index of another home
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    began = real_now() - timedelta(seconds=SILENT_S + 60)
    run = Simulation(tmp_path / "shop", TABLES, start=began, starting=starting)
    if not starting:
        run.advance(12).lose_source("connection refused")
    run.runner(heartbeat=None if alive else run.now)
    shown = AppTest.from_function(page, args=(str(run.directory.root),)).run(timeout=30)
    assert not shown.exception
    (sentence,) = [one.value for one in shown.caption if one.value.startswith("Timeline")]
    assert ("no runner" in sentence) == (not alive), sentence
    if alive:
        assert ("starting for 1 min" in sentence) == starting, sentence
        assert ("unreachable for 1 min" in sentence) == (not starting), sentence
