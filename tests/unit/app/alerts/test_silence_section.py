"""The form for a silence."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.common.view.roles import EVERYBODY
from engine.alerting.silences import silences
from engine.pipeline.directory import Directory
from tests.support.simulation import SPEC


def page(root: str) -> None:
    """The silences as a page."""
    from pathlib import Path

    from app.alerts import silence_section
    from engine.pipeline.directory import Directory

    silence_section.section([Directory(Path(root))])


def test_what_a_form_lacks_is_said_until_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However often the page refreshes."""
    where = Directory(tmp_path / "shop")
    where.root.mkdir()
    where.spec.write_text(SPEC.format(name="shop"))
    monkeypatch.setenv(EVERYBODY, "1")
    run = AppTest.from_function(page, args=(str(where.root),)).run(timeout=30)
    run.button[0].click().run()
    for _ in range(2):
        assert any("A silence needs a reason" in one.value for one in run.markdown)
        run.run()
    next(one for one in run.text_input if one.label == "Reason for the silence").input("index rebuild")
    run.button[0].click().run()
    assert not run.exception
    assert not any("needs a reason" in one.value for one in run.markdown)
    assert [one.reason for one in silences(where)] == ["index rebuild"]
