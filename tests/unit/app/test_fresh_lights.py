"""The lights of *Live* are as new as the notices below them, also if the destination's store keeps the page waiting."""

from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.common import data_light
from app.common.view.roles import EVERYBODY
from engine.base import clock
from engine.destination.missing_epochs import MissingEpochs
from engine.explore import table_facts
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.table_verdict import TableFacts
from engine.pipeline.write_outage import WriteOutage
from engine.spec.settings import load
from engine.spec.sink_settings import Sink
from tests.support.simulation import SimulatedTable, Simulation, real_now


def lose_store(pipeline: Simulation) -> None:
    """From now on its store does not answer, as its runner says."""
    outage = WriteOutage("store_away", "store away (log)", "", clock.utc_text(), 1)
    pipeline.state, pipeline.write_outage = "paused", asdict(outage)
    pipeline.runner(heartbeat=real_now())


def live() -> None:
    """The page *Live*."""
    import importlib
    import sys

    sys.modules.pop("app.screens.live", None)
    importlib.import_module("app.screens.live")


def test_a_store_that_goes_away_while_a_page_asks_it_turns_the_lights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page waits for the store first, and reads the runner's state then."""
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv(EVERYBODY, "1")
    start = real_now() - timedelta(seconds=60)
    pipeline = Simulation(tmp_path / "shop", [SimulatedTable("d.t", 100, 1)], start=start).advance(55)
    pipeline.runner(heartbeat=real_now())

    def asked(*_: Any) -> dict[str, TableFacts]:
        lose_store(pipeline)
        return {}

    monkeypatch.setattr(data_light, "committed_facts", asked)
    st.cache_resource.clear()
    run = AppTest.from_function(live).run(timeout=30)
    assert not run.exception
    shown = " ".join(one.value for one in run.markdown)
    assert "Waits for the store" in shown
    st.cache_resource.clear()


def test_nobody_asks_a_store_that_the_runner_cannot_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its answer would take long, and the pipeline's state says it."""
    start = real_now() - timedelta(seconds=60)
    pipeline = Simulation(tmp_path / "shop", [SimulatedTable("d.t", 100, 1)], start=start).advance(55)
    pipeline.runner(heartbeat=real_now())
    where, asked = Directory(tmp_path / "shop"), list[datetime]()

    def lacking_now(_ledger: Ledger, _sink: Sink | None, now: datetime) -> dict[str, MissingEpochs]:
        asked.append(now)
        return {}

    monkeypatch.setattr(table_facts, "lacking_now", lacking_now)
    spec = load(where.spec)
    table_facts.committed_facts(where, spec, real_now())
    assert len(asked) == 1
    lose_store(pipeline)
    table_facts.committed_facts(where, spec, real_now())
    assert len(asked) == 1
