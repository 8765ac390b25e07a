"""What a command verifies while no runner is alive raises and clears alerts as a run would."""

import json
import os
from pathlib import Path

import pytest

from engine.alerting.between_runs import report_verified
from engine.base import clock, processes
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text, read_alerts
from engine.pipeline.verification_records import ForeignChanges, MirrorLogs
from engine.pipeline.verifications import save, save_mirror_logs
from engine.spec.settings import Spec, parse
from tests.support.receiver import Receiver

SPEC = """
name = "shop"
[source]
host = "h"
user = "u"
tables = ["d.*"]
[sink]
path = "lake"
[alerts]
webhook_env = "TIDEMARK_TEST_WEBHOOK"
"""
NOW = "2026-01-31T00:00:00.000000Z"
RIGHT = Summary(verdict="verified", at=NOW, last=NOW, version=7, rows=3, parts=1, compared=1)
STANDING = [
    Alert("diverged", "d.a", 2.0, None, "2 rows of d.a differ from the source.", "", NOW, NOW),
    Alert("mirror_unreadable", "d.a", None, None, "d.a: no such file", "", NOW, NOW),
    Alert("mirror_written", "d.a", 1.0, None, "another program changed d.a", "", NOW, NOW),
    Alert("diverged", "d.b", 2.0, None, "2 rows of d.b differ from the source.", "", NOW, NOW),
]


def _left(folder: Path, state: str, url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Spec, Directory]:
    """The files of a run."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", url)
    directory = Directory(folder)
    directory.journals.mkdir(parents=True)
    process = processes.here()
    record = {"format": 1, "run": "r", "host": "h", "pid": 1, "process": process, "state": state, "phase": "streaming"}
    directory.runner.write_text(json.dumps({**record, "heartbeat": clock.utc_text()}))
    directory.journal("r").write_text(json.dumps({"run": "r", "seq": 4, "ts": NOW, "event": "run.ended"}) + "\n")
    directory.alerts.write_text(list_text("alerts", [alert.to_json() for alert in STANDING]))
    save_mirror_logs(directory, MirrorLogs({"d.a": 7}, {"d.a": ForeignChanges(1, 5)}))
    return parse(SPEC, folder / "shop.toml"), directory


def _names(directory: Directory) -> list[tuple[str, str | None]]:
    return [alert.name for alert in read_alerts(directory)]


def test_rows_that_are_verified_clear_the_alerts_that_a_run_left(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file, in the journal, and through the routes. Another table keeps its alert."""
    spec, directory = _left(tmp_path, "ended", receiver.url, monkeypatch)
    save(directory, {"d.a": RIGHT}, [])
    report_verified(spec, directory, ["d.a", "d.b"])
    assert _names(directory) == [("diverged", "d.b")]
    lines = [json.loads(line) for line in directory.journal("r").read_text().splitlines()[1:]]
    cleared = [("alert.cleared", one.kind, "d.a") for one in STANDING[:3]]
    assert [(line["event"], line["kind"], line["table"]) for line in lines] == cleared
    assert [line["seq"] for line in lines] == [5, 6, 7]
    assert [(one["event"], one["kind"], one["table"]) for one in receiver.got] == cleared


def test_rows_that_differ_raise_an_alert_without_a_runner(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does a mirror that cannot be read. What stands already is no news."""
    spec, directory = _left(tmp_path, "ended", receiver.url, monkeypatch)
    wrong = Summary(verdict="diverged", at=NOW, last=NOW, version=7, rows=3, parts=1, compared=1, differences=2)
    broken = Summary(verdict="unverifiable", last=NOW, unreadable=Unreadable(NOW, "no such file", "Resnapshot it."))
    save(directory, {"d.b": wrong, "d.c": wrong, "d.e": broken}, [])
    report_verified(spec, directory, ["d.b", "d.c", "d.e"])
    assert set(_names(directory)) == {one.name for one in STANDING} | {
        ("diverged", "d.c"),
        ("mirror_unreadable", "d.e"),
    }
    assert [(one["event"], one["kind"], one["table"]) for one in receiver.got] == [
        ("alert.raised", "diverged", "d.c"),
        ("alert.raised", "mirror_unreadable", "d.e"),
    ]


def test_a_runner_that_is_alive_decides_itself(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It journals each verification of a command, and two writers would overwrite each other's alerts."""
    spec, directory = _left(tmp_path, "running", receiver.url, monkeypatch)
    record = json.loads(directory.runner.read_text())
    directory.runner.write_text(json.dumps({**record, "pid": os.getpid()}))
    save(directory, {"d.a": RIGHT}, [])
    report_verified(spec, directory, ["d.a"])
    assert set(_names(directory)) == {one.name for one in STANDING}
    assert receiver.got == []
