"""Commands and signals of a runner, without one."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.directory import Directory, read_runner, send_command
from engine.events import Journal
from engine.run.control import Control


@pytest.fixture
def control(tmp_path: Path) -> Any:
    """A control that has started; one command was sent before, and a folder lies in the inbox."""
    directory = Directory(tmp_path)
    send_command(directory, "stop", reason="for the run before")
    (directory.inbox / "folder.json").mkdir()
    time.sleep(0.01)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    journal = Journal(directory.journal("r"), "r")
    made = Control(directory, journal)
    made.start()
    made.event("started")
    yield made
    made.finish(None)
    journal.close()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "journal" / "r.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def _wait(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 5
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found()


def test_a_command_for_an_earlier_run_is_refused(control: Control, tmp_path: Path) -> None:
    """A stop that nobody took does not end the next run; a folder in the inbox does not end the heartbeat."""
    _wait(lambda: _events(tmp_path, "command.refused"))
    assert _events(tmp_path, "command.refused")[0]["message"] == "It was sent before this run began."
    assert control.state == "running"
    send_command(Directory(tmp_path), "pause", reason="now")
    _wait(lambda: control.paused)
    _wait(lambda: (read_runner(Directory(tmp_path)) or {}).get("state") == "paused")  # rewritten a moment later
    runner = read_runner(Directory(tmp_path))
    assert runner is not None
    assert runner["alive"]


def test_a_signal_becomes_a_stop(control: Control, tmp_path: Path) -> None:
    """The handler only takes note; the stop is written by the thread that attends."""
    os.kill(os.getpid(), signal.SIGTERM)
    _wait(lambda: control.stopping)
    assert _events(tmp_path, "run.state")[-1]["reason"] == "signal SIGTERM"
