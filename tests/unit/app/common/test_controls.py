"""The buttons that act on a pipeline."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.common import controls, home
from app.common.view.roles import EVERYBODY
from engine.base import clock
from engine.base.errors import MismatchError, SourceLostError, SparkLostError, TidemarkError
from engine.pipeline.directory import Directory
from engine.source.connect import RESNAPSHOT_ALL
from engine.watch.record import WatchRecord, write_record
from tests.support.simulation import SPEC, SimulatedTable, Simulation


def page(root: str) -> None:
    """The button as a page."""
    from pathlib import Path

    from app.common import controls
    from engine.pipeline.directory import Directory

    controls.resnapshot_all(Directory(Path(root)))


def test_a_full_resnapshot_needs_the_pipelines_name_and_starts_the_runner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command must be in the inbox before the runner that carries it out starts."""
    root = tmp_path / "shop"
    root.mkdir()
    (root / "pipeline.toml").write_text(SPEC.format(name="shop"))
    inbox = Directory(root).inbox
    started: list[list[Path]] = []
    monkeypatch.setenv(EVERYBODY, "1")
    monkeypatch.setattr(controls, "launch", lambda _where: started.append(list(inbox.glob("*.json"))))
    run = AppTest.from_function(page, args=(str(root),)).run(timeout=30)
    assert not run.exception
    run.text_input(key="resnapshot-all-sure").input("shap")
    run.button[0].click().run()
    assert "Nothing was sent" in run.markdown[-1].value
    run.run()
    assert "Nothing was sent" in run.markdown[-1].value, "a page that refreshes by itself would show it for two seconds"
    run.text_input(key="resnapshot-all-reason").input("the binlog was purged")
    run.text_input(key="resnapshot-all-sure").input("shop")
    run.button[0].click().run()
    assert not run.exception
    ((command,),) = started
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["arguments"], sent["reason"]) == ("redump", {"tables": []}, "the binlog was purged")


def tables_page(root: str) -> None:
    """The button for one table as a page."""
    from pathlib import Path

    from app.common import controls
    from engine.pipeline.directory import Directory

    controls.resnapshot_tables(Directory(Path(root)), ["shop.a"])


def test_a_table_whose_fault_ended_the_run_is_resnapshotted_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command must be in the inbox before the runner starts; a second run of the page sends nothing."""
    root = tmp_path / "shop"
    root.mkdir()
    (root / "pipeline.toml").write_text(SPEC.format(name="shop"))
    inbox = Directory(root).inbox
    started: list[list[Path]] = []
    monkeypatch.setenv(EVERYBODY, "1")
    monkeypatch.setattr(controls, "launch", lambda _where: started.append(list(inbox.glob("*.json"))))
    run = AppTest.from_function(tables_page, args=(str(root),)).run(timeout=30)
    run.text_input(key="resnapshot-tables-reason").input("files are gone")
    run.button[0].click().run()
    run.run()
    assert not run.exception
    ((command,),) = started
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["arguments"], sent["reason"]) == ("redump", {"tables": ["shop.a"]}, "files are gone")


def restarts(root: str) -> None:
    """The button that ends a failure, as every page has it."""
    from pathlib import Path

    from app.common import home, runner_notice
    from engine.pipeline.directory import Directory

    where = Directory(Path(root))
    runner_notice.restart(where, home.runner(where), key="notice")


@pytest.mark.parametrize(
    ("error", "buttons"),
    [
        (SourceLostError("It is purged.", hint=f"{RESNAPSHOT_ALL}."), ["notice-resnapshot-all"]),
        (MismatchError("d.t is not there.", resnapshots=["d.t"]), ["notice-resnapshot"]),
        (SparkLostError("Spark is gone."), ["notice"]),
    ],
)
def test_a_failure_has_the_button_that_ends_it_on_every_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: TidemarkError, buttons: list[str]
) -> None:
    """A restart that would fail again is not offered."""
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv(EVERYBODY, "1")
    pipeline = Simulation(tmp_path / "shop", [SimulatedTable("d.t", 100, 1)]).advance(3)
    pipeline.end("failed", 1).runner(error=error.to_record().to_json())
    st.cache_resource.clear()
    run = AppTest.from_function(restarts, args=(str(tmp_path / "shop"),)).run(timeout=30)
    assert not run.exception
    assert [re.split("-confirm-|-start-", str(one.key))[0] for one in run.button] == buttons
    st.cache_resource.clear()


def lost(root: str) -> None:
    """The buttons of a pipeline as a page."""
    from pathlib import Path

    from app.common import controls, home
    from engine.pipeline.directory import Directory

    where = Directory(Path(root))
    controls.controls(where, home.runner(where), key="live")


def test_a_restart_that_is_due_can_be_cancelled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only while it is due. The stop names the run that is lost."""
    where = Directory(tmp_path / "shop")
    where.root.mkdir()
    where.spec.write_text(SPEC.format(name="shop"))
    record = {"run": "r1", "pid": 7, "host": "another", "state": "running", "phase": "streaming", "process": {}}
    old = "2026-01-31T09:30:00.000000Z"
    where.runner.write_text(json.dumps({**record, "heartbeat": old, "started": old, "error": None}))
    write_record(where, WatchRecord(run="r1", due="2999-01-01T00:00:00.000000Z"))
    monkeypatch.setenv(EVERYBODY, "1")
    run = AppTest.from_function(lost, args=(str(where.root),)).run(timeout=30)
    assert not run.exception
    run.text_input(key="live-cancel-reason").input("moving house")
    (button,) = [one for one in run.button if one.label == "Leave it down"]
    button.click().run()
    assert not run.exception
    (command,) = where.inbox.glob("*.json")
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["run"], sent["reason"]) == ("stop", "r1", "moving house")
    assert [one.label for one in run.button] == ["Restart"]


def refused(root: str) -> None:
    """The buttons and why nothing came of them."""
    from pathlib import Path

    from app.common import controls, home
    from engine.pipeline.directory import Directory

    where = Directory(Path(root))
    controls.controls(where, home.runner(where), key="live")
    controls.refusal(where.root.name)


def test_a_refused_start_is_shown_until_the_next_click(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However often the page refreshes."""
    where = Directory(tmp_path / "shop")
    where.root.mkdir()
    where.spec.write_text(SPEC.format(name="shop"))
    monkeypatch.setenv(EVERYBODY, "1")
    answers = iter([TidemarkError("No password is set."), None])
    monkeypatch.setattr(controls, "launch", lambda _where: next(answers))
    run = AppTest.from_function(refused, args=(str(where.root),)).run(timeout=30)
    start = [one for one in run.button if one.label == "Start"]
    start[0].click().run()
    for _ in range(2):
        (shown,) = run.error
        assert "No password" in shown.value
        run.run()
    next(one for one in run.button if one.label == "Start").click().run()
    assert not run.exception
    assert not run.error


def test_a_launched_runner_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before its first heartbeat it has no button at all: a command would find no run."""
    where = Directory(tmp_path / "shop")
    where.root.mkdir()
    where.spec.write_text(SPEC.format(name="shop"))
    monkeypatch.setenv(EVERYBODY, "1")
    run = AppTest.from_function(refused, args=(str(where.root),)).run(timeout=30)
    assert [one.label for one in run.button] == ["Start"]
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(home, "launches", lambda: {"shop": home.Launch(process, clock.utc_now())})
        run.run()
        process.kill()
    assert not run.exception
    assert [one.label for one in run.button] == []
