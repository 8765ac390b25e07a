"""The buttons that act on a pipeline."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.parts import controls
from app.view.roles import EVERYBODY
from engine.directory import Directory
from tests.support.simulation import SPEC


def page(root: str) -> None:
    """The button as a page."""
    from pathlib import Path

    from app.parts import controls
    from engine.directory import Directory

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
    run.text_input(key="resnapshot-all-reason").input("the binlog was purged")
    run.text_input(key="resnapshot-all-sure").input("shop")
    run.button[0].click().run()
    assert not run.exception
    ((command,),) = started
    sent = json.loads(command.read_text())
    assert (sent["verb"], sent["arguments"], sent["reason"]) == ("redump", {"tables": []}, "the binlog was purged")
