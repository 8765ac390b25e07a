"""Threads beside the coordinator.

An error in one is reported once, by name, and ends nothing; a full disk is waited for.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.alerting.alerts import ActiveAlerts
from engine.base.errors import TidemarkError
from engine.journal import Journal
from engine.journal.events import RunState
from engine.pipeline import disk as disks
from engine.pipeline import helpers as helping
from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.pipeline.runner_file import read_runner
from engine.run.commands.control import Control, ControlOptions, control_of
from engine.run.monitors.lag import LagMonitor
from engine.run.snapshot.throttle import Health, ReadPace
from engine.run.source_loss.outage import OutageTracker
from engine.run.tables.table_commands import to_add
from engine.source.connect import Endpoint
from engine.spec.alert_settings import Alerts as Settings
from engine.spec.throttle_settings import Throttle
from tests.support.entries import entry
from tests.support.mounts import Small

ENDPOINT = Endpoint("127.0.0.1", 1, "u", "p")
DEEP = "[" * 100_000


def _wait(found: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found()


def _events(journal: Journal, *kinds: str) -> list[dict[str, Any]]:
    return [e for e in map(json.loads, journal.path.read_text().splitlines()) if e["event"] in kinds]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal in this test's folder."""
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    journal.write(RunState(state="running"))
    return journal


@pytest.fixture
def started(tmp_path: Path, journal: Journal) -> Iterator[Callable[[], Control]]:
    """Starts a control, which is closed at the end."""
    made: list[Control] = []

    def start() -> Control:
        made.append(control_of(Directory(tmp_path), journal, ControlOptions("shop")))
        made[-1].thread._thread.start()
        made[-1].state.apply("started")
        return made[-1]

    yield start
    for control in made:
        control.thread.finish(None)


def test_a_failure_raises_one_alert_and_clears_it_after_a_while(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many failures give one `error` event and one alert; both end when the helper has worked for a while."""
    monkeypatch.setattr(helping, "CALM_S", 0.1)
    helpers, alerts = Helpers(journal), ActiveAlerts(Settings())
    notices: list[tuple[str, str]] = []
    journal.listeners.append(
        lambda line: notices.extend((event.NAME, alert.kind) for event, alert in alerts.hear(line))
    )
    for _ in range(50):
        helpers.failed("monitor", KeyError("Seconds"))
        helpers.succeeded("monitor")
    (error,) = _events(journal, "error")
    assert (error["error"], error["helper"]) == ("HelperError", "monitor")
    assert "KeyError: 'Seconds'" in error["message"]
    (shown,) = helpers.as_list()
    assert (shown["helper"], shown["error"], shown["errors"]) == ("monitor", "KeyError", 50)
    time.sleep(0.15)
    helpers.succeeded("monitor")
    assert helpers.as_list() == []
    assert [e["errors"] for e in _events(journal, "helper.recovered")] == [50]
    assert notices == [("alert.raised", "helper_failed"), ("alert.cleared", "helper_failed")]


def test_the_lag_monitor_survives_whatever_it_meets(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also foreign errors, such as an OSError, and bugs of Tidemark."""
    helpers = Helpers(journal)

    def failing(*_: object) -> Any:
        raise ZeroDivisionError

    away = OutageTracker(journal, lambda _: None)
    with closing(LagMonitor(ENDPOINT, 1, journal, failing, away, helpers)) as monitor:
        monkeypatch.setattr(monitor, "measure", failing)
        _wait(lambda: monitor._thread.is_alive() or True)
        monkeypatch.setattr("engine.run.monitors.lag.open_connection", failing)
        _wait(lambda: _events(journal, "error"))
        assert monitor._thread.is_alive()
    assert _events(journal, "error")[0]["helper"] == "monitor"


def test_the_health_check_survives_whatever_it_meets(journal: Journal) -> None:
    """The current result stays."""
    helpers = Helpers(journal)

    class Broken(ReadPace):
        @property
        def settings(self) -> Throttle:
            raise OSError(5, "Input/output error")

        @settings.setter
        def settings(self, _: Throttle) -> None:
            pass

    with closing(Health(ENDPOINT, Broken(Throttle()), lambda _: None, helpers)) as health:
        _wait(lambda: _events(journal, "error"))
        assert health._thread.is_alive()
    assert "Input/output error" in _events(journal, "error")[0]["message"]


@pytest.mark.parametrize("kind", ["deep", "deep arguments", "bytes", "dangling", "folder", "long"])
def test_a_poisoned_file_is_refused_and_the_inbox_goes_on(
    kind: str, started: Callable[[], Control], journal: Journal, tmp_path: Path
) -> None:
    """It is moved to `inbox/refused`, also if it was there before the start; the command behind it is executed."""
    directory = Directory(tmp_path)
    directory.inbox.mkdir()
    poison = directory.inbox / "0poison.json"
    if kind == "deep":
        poison.write_text(DEEP)
    elif kind == "deep arguments":
        poison.write_text(f'{{"id": "p", "verb": "add-table", "arguments": {{"tables": {"[" * 50_000}}}')
    elif kind == "bytes":
        poison.write_bytes(b"\xff\xfe\x00")
    elif kind == "dangling":
        poison.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        poison.mkdir()
    else:
        poison.write_text(json.dumps({"id": "x" * 5000, "verb": "pause"}))
    control = started()
    assert to_add(control.intake.waiting()) == set()
    _wait(lambda: _events(journal, "command.refused"))
    assert os.path.lexists(directory.inbox / "refused" / "0poison.json")
    assert not os.path.lexists(poison)
    send_command(directory, "pause")
    _wait(lambda: control.state.paused)
    assert control.thread._thread.is_alive()
    assert len(_events(journal, "command.refused")) == 1


def test_the_control_thread_survives_what_it_did_not_foresee(
    started: Callable[[], Control], journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal, runner.json and `status` report it, and the heartbeat continues."""
    control, broken = started(), [True]
    poll = control.intake.poll

    def failing() -> None:
        if broken[0]:
            raise RecursionError("too deep")
        poll()

    monkeypatch.setattr(control.intake, "poll", failing)
    _wait(lambda: (runner := read_runner(Directory(tmp_path))) and runner.helpers)
    runner = read_runner(Directory(tmp_path))
    assert runner is not None
    assert [(h.helper, h.error) for h in runner.helpers] == [("inbox", "RecursionError")]
    broken[0] = False
    send_command(Directory(tmp_path), "pause")
    _wait(lambda: control.state.paused)
    assert len(_events(journal, "error")) == 1


def test_a_listener_of_the_journal_that_fails_is_reported(
    started: Callable[[], Control], journal: Journal, tmp_path: Path
) -> None:
    """A closed terminal or an unwritable alert file does not end the run."""

    def screen(_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    journal.listeners.append(screen)
    started()
    _wait(lambda: _events(journal, "error"))
    assert "screen" in _events(journal, "error")[0]["helper"]
    assert len(_events(journal, "error")) == 1


def test_a_full_disk_is_waited_for_and_reported_once(
    tmp_path: Path, journal: Journal, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing starts until a test file fits; the work itself shows whether that was enough."""
    monkeypatch.setattr(disks, "RETRY_S", 0.05)
    monkeypatch.setattr(disks, "PROBE_BYTES", 100_000)
    said: list[str] = []
    disk = Disk([small.folder, tmp_path / "missing"], journal, said.append, said.append)
    small.fill()
    with pytest.raises(OSError, match="No space") as raised:
        (small.folder / "f").write_bytes(bytes(1 << 20))
    disk.failed("ledger", raised.value)
    for _ in range(5):
        assert disk.blocks_work()
        disk.failed("ledger", raised.value)
        time.sleep(0.03)
    small.free()
    (small.folder / "f").unlink()
    _wait(lambda: not disk.blocks_work())
    assert "No space left" in disk.reason, "the work has not shown yet that it found room"
    disk.succeeded("chunks")
    assert disk.reason
    disk.succeeded("ledger")
    assert not disk.reason
    assert len(said) == 2
    assert said[0].startswith("disk full (ledger: ")
    assert [e["error"] for e in _events(journal, "error")] == ["DiskFullError"]
    assert [e["attempts"] for e in _events(journal, "disk.freed")] == [6]


def test_a_step_of_the_start_waits_for_room(journal: Journal, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives up when a stop is requested; other errors are raised."""
    monkeypatch.setattr(disks, "RETRY_S", 0.05)
    disk = Disk([small.folder], journal)
    small.fill()

    def step() -> int:
        return (small.folder / "f").write_bytes(bytes(1 << 16))

    with pytest.raises(OSError, match="No space"):
        disk.retry_when_full("ledger", step, lambda: True)
    calls = iter([False, False])

    def stopping() -> bool:
        if next(calls, None) is None:
            (small.folder / "ballast").unlink(missing_ok=True)
        return False

    (small.folder / "f").unlink(missing_ok=True)
    monkeypatch.setattr(disks, "PROBE_BYTES", 1000)
    assert disk.retry_when_full("ledger", step, stopping) == 1 << 16
    assert not disk.reason

    def other() -> None:
        raise TidemarkError("another")

    with pytest.raises(TidemarkError, match="another"):
        disk.retry_when_full("ledger", other, lambda: False)


def test_the_alert_of_a_full_disk_ends_with_it(journal: Journal) -> None:
    """Or with the next run; while the disk is full, the run is shown as paused."""
    alerts = ActiveAlerts(Settings())
    notices: list[tuple[str, str]] = []
    journal.listeners.append(
        lambda line: notices.extend((event.NAME, alert.kind) for event, alert in alerts.hear(line))
    )
    disk = Disk((), journal)
    disk.failed("chunks", OSError(28, "No space left on device"))
    journal.write(RunState(state="paused", reason=disk.reason))
    disk.succeeded("chunks")
    assert notices == [("alert.raised", "disk_full")], "it was begun before"
    disk.probe_now()
    assert not disk.blocks_work()
    disk.succeeded("chunks")
    assert notices == [("alert.raised", "disk_full"), ("alert.cleared", "disk_full")]
    disk.failed("chunks", OSError(28, "No space left on device"))
    later = ActiveAlerts(Settings(), alerts.standing.values())
    cleared = later.hear(entry("run.state", "2026-01-01T00:00:00.000000Z", state="running"))
    assert [(event.NAME, alert.kind) for event, alert in cleared] == [("alert.cleared", "disk_full")]


def test_a_helper_that_lacks_a_privilege_says_which(tmp_path: Path) -> None:
    """In `runner.json` and in its error: trying again does not help."""
    with closing(Journal(tmp_path / "journal" / "r.jsonl", "r")) as journal:
        helpers = Helpers(journal)
        helpers.failed("hidden changes", TidemarkError("SELECT is refused.", hint="GRANT SELECT ON shop.*"))
        helpers.failed("monitor", ValueError("x"))
        (event, other) = _events(journal, "error")
    assert event["hint"] == "GRANT SELECT ON shop.*. Tidemark retries."
    assert other["hint"].startswith("Tidemark retries. If this persists")
    assert [one["hint"] for one in helpers.as_list()] == ["GRANT SELECT ON shop.*", ""]
