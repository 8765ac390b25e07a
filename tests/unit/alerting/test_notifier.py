"""The notifier writes alerts to the journal, stderr, a file and a webhook."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.alerting.notifier import Notifier
from engine.base.errors import ErrorRecord
from engine.journal import Journal
from engine.journal.event_fields import ForeignCommit
from engine.journal.events import LagMeasured, RunEnded, TableStateChanged
from engine.journal.verification_events import MirrorWritten
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import read_alerts
from engine.spec.settings import Spec, parse
from engine.status.terminal import line as shown
from tests.support.entries import entry_of
from tests.support.mounts import Small
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
ERROR = ErrorRecord("TidemarkError", "no", hint="fix it")


def events(folder: Path) -> list[dict[str, Any]]:
    """The journal's lines."""
    return [json.loads(text) for text in (folder / "journal" / "r.jsonl").read_text().splitlines()]


def open_notifier(folder: Path, spec: Spec) -> tuple[Journal, Notifier]:
    """The notifier of one run."""
    directory = Directory(folder)
    journal = Journal(directory.journal("r"), "r")
    return journal, Notifier(spec, directory, journal)


def test_a_mirror_that_is_written_again_is_one_alert_whose_value_is_saved(tmp_path: Path) -> None:
    """The next run, status and the console show the new number."""
    journal, made = open_notifier(tmp_path, parse(SPEC.partition("[alerts]")[0], tmp_path / "shop.toml"))
    one = ForeignCommit(4, "DELETE", "spark", "2026-01-31T00:00:00.000000Z")
    for commits in (1, 4):
        journal.write(MirrorWritten(table="d.t", commits=commits, newest=[one]))
    made.close()
    journal.close()
    assert [alert.value for alert in read_alerts(Directory(tmp_path))] == [4.0]
    assert [event["event"] for event in events(tmp_path)].count("alert.raised") == 1


def test_an_alert_goes_everywhere(
    tmp_path: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the same fields, for a failed run before the process ends; without alerts nothing is sent."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", f"{receiver.url}\n")
    journal, made = open_notifier(tmp_path, parse(SPEC, tmp_path / "shop.toml"))
    made.connect()
    journal.write(TableStateChanged(table="d.t", state="copying"))
    journal.write(LagMeasured(position="b:4", source_position="b:5", lag_s=1e6, lag_bytes=1))
    assert len(events(tmp_path)) == 2
    journal.write(TableStateChanged(table="d.t", state="stopped", reason="no date"))
    assert [alert.table for alert in read_alerts(Directory(tmp_path))] == ["d.t"]
    journal.write(TableStateChanged(table="d.t", state="streaming"))
    assert read_alerts(Directory(tmp_path)) == []
    journal.write(RunEnded(outcome="failed", exit_code=1, error=ERROR))
    made.close()
    journal.close()
    alerts = [e for e in events(tmp_path) if e["event"].startswith("alert.")]
    assert [(e["event"], e["kind"], e["table"]) for e in alerts] == [
        ("alert.raised", "table_stopped", "d.t"),
        ("alert.cleared", "table_stopped", "d.t"),
        ("alert.raised", "run_failed", None),
    ]
    lines = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    assert receiver.got == lines
    for message, event in zip(lines, alerts, strict=True):
        assert (message["pipeline"], message["run"], bool(message["host"])) == ("shop", "r", True)
        assert message == {
            "severity": "critical",
            **{k: v for k, v in event.items() if k != "seq"},
            "pipeline": "shop",
            "host": message["host"],
        }


def test_a_webhook_that_is_down_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the journal, without its address; the terminal shows a line."""
    monkeypatch.setattr("engine.alerting.notifier.PATIENCE_S", 0.5)
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", "http://127.0.0.1:9/s3cret")
    journal, made = open_notifier(tmp_path, parse(SPEC, tmp_path / "shop.toml"))
    made.connect()
    for name in ("d.t", "d.u"):
        journal.write(TableStateChanged(table=name, state="stopped", reason="no date"))
    made.close()
    journal.close()
    (error,) = [e for e in events(tmp_path) if e["event"] == "error"]
    assert error["error"] == "RouteError"
    assert "s3cret" not in json.dumps(error) + capsys.readouterr().err
    assert str(shown(entry_of(error))).endswith(" – attempt 1, next in 1.0 s")
    assert str(shown(entry_of({**error, "retry_in_s": None}))).endswith("refused.")


def test_what_stands_outlives_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A later run does not repeat the alert, and clears it; a damaged file holds no alerts."""
    spec = parse(SPEC, tmp_path / "shop.toml")
    for state in ("stopped", "stopped", "streaming"):
        journal, made = open_notifier(tmp_path, spec)
        journal.write(TableStateChanged(table="d.t", state=state, reason="no date"))
        made.close()
        journal.close()
    assert [json.loads(text)["event"] for text in capsys.readouterr().err.splitlines()] == [
        "alert.raised",
        "alert.cleared",
    ]
    assert not Directory(tmp_path).alerts.exists()
    for damage in ("", "[1]", '[{"kind": "lag"}]'):
        Directory(tmp_path).alerts.write_text(damage)
        journal, made = open_notifier(tmp_path, spec)
        assert made._alerts.standing == {}
        journal.close()


@pytest.mark.parametrize(
    "url", ["", "ftp://h/x", "http://", "http://a b/", "http://user:pw@h/", "http://hü/", "hunter2"]
)
def test_an_address_that_is_none_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """It may contain a secret."""
    monkeypatch.setattr("engine.alerting.notifier.PATIENCE_S", 0.0)
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", url)
    journal, made = open_notifier(tmp_path, parse(SPEC, tmp_path / "shop.toml"))
    made.connect()
    made.close()
    journal.close()
    (alert,) = read_alerts(Directory(tmp_path))
    assert alert.kind == "route_unreachable"
    assert "not a webhook URL" in alert.message
    assert "hunter2" not in (tmp_path / "journal" / "r.jsonl").read_text()


def _two_routes(folder: Path, severities: str) -> Spec:
    text = SPEC + '[alerts.routes.own]\ntype = "webhook"\nurl_file = "url"\n' + f"severities = {severities}\n"
    return parse(text, folder / "shop.toml")


@pytest.mark.parametrize("severities", ['["critical", "warning"]', '["warning"]'])
def test_a_route_without_its_secret_silences_no_other_one(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, severities: str
) -> None:
    """The other one gets all alerts, that it fails among them.

    When the secret appears, the route works, whatever it takes.
    """
    monkeypatch.setattr("engine.alerting.notify.sender._LONGEST_RETRY_S", 0.1)
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    journal, made = open_notifier(tmp_path, _two_routes(tmp_path, severities))
    made.connect()
    journal.write(TableStateChanged(table="d.t", state="stopped", reason="no date"))
    _until(lambda: len(receiver.got) == 2)
    assert [one["kind"] for one in receiver.got] == ["route_unreachable", "table_stopped"]
    assert "alerts.routes.own.url_file) cannot be read" in receiver.got[0]["message"]
    assert receiver.got[0]["hint"]
    assert read_alerts(Directory(tmp_path))[0].routes == ["route own"]
    (tmp_path / "url").write_text(receiver.url)
    _until(lambda: "route_unreachable" not in _standing(tmp_path))
    made.close()
    journal.close()
    assert [one["event"] for one in receiver.got].count("alert.cleared") >= 1


def test_a_secret_that_is_still_missing_is_no_news_of_the_next_run(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that restarts raises one alert."""
    monkeypatch.setattr("engine.alerting.notifier.PATIENCE_S", 0.5)
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    for _ in range(2):
        journal, made = open_notifier(tmp_path, _two_routes(tmp_path, '["critical"]'))
        made.connect()
        made.close()
        journal.close()
    assert [(one["event"], one["kind"]) for one in receiver.got] == [("alert.raised", "route_unreachable")]


def test_the_address_may_be_in_a_file_beside_the_spec(tmp_path: Path) -> None:
    """Like a password."""
    (tmp_path / "hook").write_text("https://example.com/x\n")
    spec = parse(SPEC.replace('webhook_env = "TIDEMARK_TEST_WEBHOOK"', 'webhook_file = "hook"'), tmp_path / "shop.toml")
    journal, made = open_notifier(tmp_path, spec)
    made.connect()
    made.close()
    journal.close()


def test_an_alert_that_does_not_fit_on_the_disk_is_saved_later(small: Small) -> None:
    """With the first event after there is room."""
    spec = parse(SPEC.replace("webhook_env", "# webhook_env"), small.folder / "shop.toml")
    journal, _ = open_notifier(small.folder, spec)
    journal.write(TableStateChanged(table="d.t", state="copying"))
    small.fill()
    journal.write(TableStateChanged(table="d.t", state="stopped", reason="no date"))
    assert read_alerts(Directory(small.folder)) == []
    small.free()
    journal.write(LagMeasured(position="b:4", source_position="b:5", lag_s=0.0, lag_bytes=0))
    assert [alert.table for alert in read_alerts(Directory(small.folder))] == ["d.t"]


def _until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()


def _standing(folder: Path) -> list[str]:
    return [alert.kind for alert in read_alerts(Directory(folder))]


def test_a_route_that_fails_is_an_alert_until_it_works(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a state of the route: the alert that was rejected is lost, the next one that is taken ends it."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    receiver.answers = [404]
    journal, made = open_notifier(tmp_path, parse(SPEC, tmp_path / "shop.toml"))
    made.connect()
    journal.write(TableStateChanged(table="d.t", state="stopped", reason="no date"))
    _until(lambda: len(receiver.got) == 2)
    made.close()
    journal.close()
    assert [(one["event"], one["kind"]) for one in receiver.got] == [
        ("alert.raised", "route_unreachable"),
        ("alert.cleared", "route_unreachable"),
    ]
    assert "it answered 404" in receiver.got[0]["message"]
    assert _standing(tmp_path) == ["table_stopped"]


def test_the_next_run_asks_a_route_that_failed(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other alert may come for days. A route that the spec has no more is not unreachable."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    text = SPEC.replace("[alerts]", '[alerts]\nseverity = { route_unreachable = "warning" }')
    for again in (False, True):
        receiver.answers = [404, 404]
        journal, made = open_notifier(tmp_path, parse(text, tmp_path / "shop.toml"))
        made.connect()
        table = f"d.{again}"
        journal.write(TableStateChanged(table=table, state="stopped", reason="no date"))
        made.close()
        journal.close()
        assert "route_unreachable" in _standing(tmp_path)
        receiver.answers = []
        without = text.partition("[alerts]")[0]
        journal, made = open_notifier(tmp_path, parse(without if again else text, tmp_path / "shop.toml"))
        made.connect()
        made.close()
        journal.close()
        assert "route_unreachable" not in _standing(tmp_path)


def test_a_failing_route_that_was_removed_from_the_spec_is_asked_no_more(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one, which failed too, still is: each run begins."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    route = '[alerts.routes.{}]\ntype = "webhook"\nurl_env = "TIDEMARK_TEST_WEBHOOK"\n'
    base = SPEC.partition("[alerts]")[0]
    receiver.answers = [404] * 40
    for names in (("a", "b"), ("a",)):
        text = base + "".join(route.format(name) for name in names)
        journal, made = open_notifier(tmp_path, parse(text, tmp_path / "shop.toml"))
        made.connect()
        journal.write(TableStateChanged(table=f"d.{len(names)}", state="stopped", reason="no date"))
        made.close()
        journal.close()
        (alert,) = [one for one in read_alerts(Directory(tmp_path)) if one.kind == "route_unreachable"]
        assert len(alert.routes) == len(names)
