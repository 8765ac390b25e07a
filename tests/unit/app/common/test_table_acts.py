"""The buttons beside what is wrong with a table, on every page that says it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.common import table_acts
from app.common.view.roles import EVERYBODY
from engine.base.errors import TableGoneError, TableStoppedError, stop_of
from engine.journal.verification_summary import Unreadable
from engine.pipeline.verifications import save
from tests.support.simulation import SimulatedTable, Simulation
from tests.support.verified import VERIFIED

GONE = stop_of(TableGoneError("shop.gone was dropped.", hint="If it appears again, it is copied and streamed."), "")
TYPE = stop_of(TableStoppedError("shop.type has a new type.", hint="Change it back."), "shop.type")
BROKEN = "its mirror cannot be read: No such file"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    """A pipeline with a table that was dropped, one that stopped, one whose mirror cannot be read, and one in order."""
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv(EVERYBODY, "1")
    st.cache_resource.clear()
    names = ("shop.gone", "shop.type", "shop.broken", "shop.right")
    found = Simulation(tmp_path / "shop", [SimulatedTable(name, 1000, 1) for name in names]).advance(30)
    for name, stop in (("shop.gone", GONE), ("shop.type", TYPE)):
        found.write("table.state", table=name, state="stopped", reason=stop.message, hint=stop.hint)
        found.raise_alert("table_stopped", name, message=stop.message, hint=stop.hint)
    hint = "If files are gone, resnapshot the table: tidemark redump SPEC --table shop.broken"
    broken = Unreadable(at=VERIFIED.at, why=BROKEN, hint=hint, chunks=[])
    save(found.directory, {"shop.broken": replace(VERIFIED, unreadable=broken)}, [])
    found.raise_alert("mirror_unreadable", "shop.broken", message=f"shop.broken: {BROKEN}.", hint=hint)
    yield found.runner()
    st.cache_resource.clear()


def buttons(run: AppTest) -> list[str]:
    """The keys of the buttons that confirm an act, without the click's number."""
    return [str(one.key).rpartition("-confirm-")[0] for one in run.button if "-confirm-" in str(one.key)]


def live(root: str) -> None:
    """What *Live* says of tables, and the buttons below."""
    from pathlib import Path

    from app.common import table_acts
    from app.live import sections
    from engine.pipeline.directory import Directory

    where = Directory(Path(root))
    sections._troubles(where, table_acts.of_tables(where))
    table_acts.buttons(where, table_acts.of_tables(where), key="stop")


def test_each_table_has_the_buttons_that_help(shop: Simulation) -> None:
    """A dropped table cannot be resnapshotted. The text names the buttons below it, and is made of sentences."""
    run = AppTest.from_function(live, args=(str(shop.directory.root),)).run(timeout=30)
    assert not run.exception
    assert buttons(run) == [
        "stop-remove-table-shop.gone",
        "stop-resume-shop.type",
        "stop-remove-table-shop.type",
        "stop-redump-shop.broken",
    ]
    gone, type_, broken = (one.value.replace("\\", "") for one in run.error)
    assert "Resnapshot" not in gone
    assert type_.endswith("Change it back. Then resnapshot it: the button Resnapshot below.")
    assert broken.startswith(f"**shop.broken: {BROKEN}.**")
    assert broken.endswith("If files are gone, resnapshot the table: the button Resnapshot below.")
    run.button[-1].click().run()
    (command,) = shop.directory.inbox.glob("*.json")
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["arguments"]) == ("redump", {"tables": ["shop.broken"]})


def test_one_button_resnapshots_all_stopped_tables_that_the_source_has(shop: Simulation) -> None:
    """It stands before those of each table, and sends one command."""
    for name in ("shop.broken", "shop.right"):
        shop.write("table.state", table=name, state="stopped", reason=TYPE.message, hint=TYPE.hint)
    run = AppTest.from_function(live, args=(str(shop.directory.root),)).run(timeout=30)
    assert buttons(run)[0] == "stop-resume-all"
    assert run.button[0].label == "Resnapshot 3 tables"
    run.button[0].click().run()
    (command,) = shop.directory.inbox.glob("*.json")
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["arguments"]) == (
        "resume",
        {"tables": ["shop.broken", "shop.right", "shop.type"]},
    )


def test_a_page_of_one_table_has_its_own_buttons(shop: Simulation) -> None:
    """And none for a table in order."""
    assert table_acts.of_tables(shop.directory, "shop.broken") == {"shop.broken": ("redump",)}
    assert table_acts.of_tables(shop.directory, "shop.right") == {}


def alerts(root: str) -> None:
    """The buttons of each alert."""
    from pathlib import Path

    from app.alerts import alert_acts
    from app.common import home
    from engine.pipeline.directory import Directory

    where = Directory(Path(root))
    for one in home.firing(where):
        alert_acts.buttons(where, one, key=f"act-{one.kind}")


def test_alerts_have_the_buttons_that_live_has(shop: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's, a try during an outage, and a restart of a runner that is lost; none for a viewer."""
    root = str(shop.directory.root)
    run = AppTest.from_function(alerts, args=(root,)).run(timeout=30)
    assert not run.exception
    assert sorted(buttons(run)) == [
        "act-mirror_unreadable-redump-shop.broken",
        "act-table_stopped-remove-table-shop.gone",
        "act-table_stopped-remove-table-shop.type",
        "act-table_stopped-resume-shop.type",
    ]
    shop.lose_source("Connection refused").raise_alert("source_away", message="away").runner()
    run = AppTest.from_function(alerts, args=(root,)).run(timeout=30)
    assert "Try now" in [one.label for one in run.button]
    shop.runner(heartbeat=shop.started.replace(year=2020))
    run = AppTest.from_function(alerts, args=(root,)).run(timeout=30)
    assert "Restart" in [one.label for one in run.button]
    monkeypatch.delenv(EVERYBODY)
    run = AppTest.from_function(alerts, args=(root,)).run(timeout=30)
    assert not run.button
