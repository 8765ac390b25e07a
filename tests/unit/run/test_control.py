"""Commands and signals of a runner, without one."""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.directory import Directory, read_runner, send_command
from engine.events import Journal
from engine.run.control import Control
from engine.run.controls import load_controls


@pytest.fixture
def control(tmp_path: Path) -> Any:
    """A control that has started; one command was sent before, and a folder lies in the inbox."""
    directory = Directory(tmp_path)
    send_command(directory, "stop", reason="for the run before")
    (directory.inbox / "folder.json").mkdir()
    time.sleep(0.01)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    journal = Journal(directory.journal("r"), "r")
    made = Control(directory, journal, name="shop")
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


def _answers(folder: Path, identity: str) -> list[dict[str, Any]]:
    return [e for kind in ("done", "refused") for e in _events(folder, f"command.{kind}") if e["id"] == identity]


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
    _wait(lambda: (read_runner(Directory(tmp_path)) or {})["state"] == "paused")
    runner = read_runner(Directory(tmp_path))
    assert runner is not None
    assert runner["alive"]
    assert control.paused


def test_a_signal_becomes_a_stop(control: Control, tmp_path: Path) -> None:
    """The handler only takes note; the stop is written by the thread that attends."""
    os.kill(os.getpid(), signal.SIGTERM)
    _wait(lambda: control.stopping)
    assert _events(tmp_path, "run.state")[-1]["reason"] == "signal SIGTERM"


def test_a_command_that_was_carried_out_is_not_carried_out_again(control: Control, tmp_path: Path) -> None:
    """The same file put there once more, under the id that was answered: refused, and kept to be looked at."""
    directory = Directory(tmp_path)
    identity = send_command(directory, "pause", reason="once")
    _wait(lambda: control.paused)
    assert (directory.inbox / f"{identity}.json").exists(), "the next run refuses what was not done"
    control.done("pause")
    send_command(directory, "resume")
    _wait(lambda: not control.paused)
    kept = directory.inbox / "done" / f"{identity}.json"
    (directory.inbox / "another_name.json").write_text(kept.read_text())
    _wait((directory.inbox / "refused" / f"{identity}.json").exists)
    _wait(lambda: _events(tmp_path, "command.refused")[-1]["message"] == "It was carried out already.")
    assert control.state == "running"


def test_what_operators_set_outlives_the_runner(control: Control, tmp_path: Path) -> None:
    """Pauses of tables and limits are kept; wrong ones are refused; a reset leads back to the spec."""
    directory = Directory(tmp_path)
    control.tables = lambda: dict.fromkeys(("d.a", "d.b"))  # type: ignore[arg-type,return-value]

    def send(verb: str, **arguments: Any) -> dict[str, Any]:
        identity = send_command(directory, verb, arguments=arguments, pipeline=arguments.pop("pipeline", ""))
        answers = partial(_answers, tmp_path, identity)
        _wait(answers)
        return answers()[0]

    assert send("pause", tables=["d.a"])["event"] == "command.done"
    assert send("pause", snapshot=True)["event"] == "command.done"
    assert send("throttle", max_rows_per_s=5, readers=3)["event"] == "command.done"
    kept = load_controls(directory)
    assert (kept.tables, kept.snapshot, kept.throttle) == (("d.a",), True, {"max_rows_per_s": 5, "readers": 3})
    assert control.pace.settings.readers == 3
    assert control.controls.pausing("d.b")
    assert send("resume", snapshot=True)["event"] == "command.done"
    assert not control.controls.pausing("d.b")
    assert control.controls.pausing("d.a")
    assert "no table d.c" in send("pause", tables=["d.c"])["message"]
    assert "No such throttle" in send("throttle", max_rows=5)["message"]
    assert "does not say what" in send("resume", tables=[])["message"]
    assert "another" in send("throttle", readers=1, pipeline="another")["message"]
    assert send("throttle", reset=True)["event"] == "command.done"
    assert load_controls(directory).throttle == {}
    assert control.pace.settings.readers == 0
