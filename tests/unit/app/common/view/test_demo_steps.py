"""The demo's state, from the output of its process."""

from pathlib import Path

import pytest

from app.common import access, demo, engine
from app.common.view import demo_steps
from app.common.view.demo_steps import ENDING, FAILED, NONE, READY, STARTING, Demo

LOG = "Start a private MySQL 9.7.4\n\nStart the runner\n"
STEPS = ("Start a private MySQL 9.7.4", "Start the runner")


@pytest.mark.parametrize(
    ("log", "running", "ending", "failed", "phase"),
    [
        ("", False, False, False, NONE),
        ("", True, False, False, STARTING),
        (LOG, True, False, False, STARTING),
        (LOG + "Ready\n", True, False, False, READY),
        (LOG + "Ready\n", True, True, False, ENDING),
        (LOG + "Ready\n", False, True, False, NONE),
        (LOG, False, False, True, FAILED),
    ],
)
def test_the_phase(log: str, running: bool, ending: bool, failed: bool, phase: str) -> None:
    """What is on the disk counts only while the process lives; a process that failed is not forgotten."""
    assert demo_steps.state(log, running=running, ending=ending, failed=failed).phase == phase


def test_a_failure_is_the_last_line() -> None:
    """The process prints why; a traceback ends with the error."""
    log = LOG + "Not on this machine: Java.\n"
    assert demo_steps.state(log, running=False, ending=False, failed=True).error == "Not on this machine: Java."
    assert demo_steps.state("", running=False, ending=False, failed=True).error


def test_the_steps_as_markdown() -> None:
    """All but the last are done, and names are shown literally."""
    assert demo_steps.state(LOG, running=True, ending=False, failed=False) == Demo(STARTING, STEPS)
    done, current = demo_steps.markdown(STEPS).splitlines()
    assert "check" in done
    assert "MySQL 9\\.7\\.4" in done
    assert "hourglass" in current


def test_only_a_checkout_has_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package or a container has no tests, so the button is not there."""
    monkeypatch.setattr(access, "operator", lambda: True)
    assert demo.offered()
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    assert not demo.offered()
