"""Routes by type and severity, as their receivers get them; one that is down delays no other."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.alerting.notify.notice import Notice
from engine.alerting.notify.pagerduty import dedup_key
from engine.alerting.notify.routes import Routes, announce, broken_routes, send_test
from engine.alerting.silences import add_silence
from engine.base.errors import SpecError
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.pipeline.directory import Directory
from engine.run.lifecycle.route_check import check_routes
from tests.support.mail_server import MAIL_PASSWORD, USER, mail_server, make_certificate
from tests.support.receiver import Receiver
from tests.unit.alerting.notify.notices import alert, notice, spec_with

PAGE = Path(__file__).parents[4] / "docs" / "operations.md"
KEY = "canary-integration-key"
ALL = """
[alerts.routes.pager]
type = "pagerduty"
key_env = "TIDEMARK_TEST_KEY"
endpoint = "{url}"
severities = ["critical"]
[alerts.routes.chat]
type = "slack"
url_env = "TIDEMARK_TEST_WEBHOOK"
severities = ["warning"]
"""


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> None:
    """Where the specs of this file look for them."""
    monkeypatch.setenv("TIDEMARK_TEST_WEBHOOK", receiver.url)
    monkeypatch.setenv("TIDEMARK_TEST_KEY", KEY)


def _nothing(*_: object) -> None:
    """What a route that works never calls."""
    raise AssertionError(_)


def _sent(receiver: Receiver, tmp_path: Path, *notices: Notice, settings: str = ALL) -> list[Any]:
    """What the routes post for these notices."""
    routes = Routes(spec_with(tmp_path, settings.replace("{url}", receiver.url)).alerts, _nothing, _nothing)
    for one in notices:
        routes.post(one)
    routes.close(10)
    return receiver.got


def test_pagerduty_gets_a_trigger_and_a_resolve_with_one_key(receiver: Receiver, tmp_path: Path) -> None:
    """By the Events API v2. Warnings take another route."""
    spec = spec_with(tmp_path, "")
    raised, cleared = (notice(spec, event) for event in (AlertRaised, AlertCleared))
    trigger, resolve = _sent(receiver, tmp_path, raised, cleared)
    assert trigger["event_action"], resolve["event_action"] == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == "tidemark/shop/table_stopped/d.orders"
    assert trigger["routing_key"] == resolve["routing_key"] == KEY
    payload = trigger["payload"]
    assert payload["summary"] == "shop: Table stopped (d.orders): d.orders stopped: <no> date & time."
    assert (payload["severity"], payload["class"], payload["group"]) == ("critical", "table_stopped", "shop")
    assert payload["source"]
    assert payload["custom_details"]["hint"] == "Do it."
    long = notice(spec, table="d." + "x" * 300)
    assert len(dedup_key(long)) <= 255
    assert dedup_key(long) != dedup_key(replace(long, table=f"{long.table}y"))


def test_slack_gets_a_text_in_which_nothing_is_a_mention(receiver: Receiver, tmp_path: Path) -> None:
    """Signs of Slack's are escaped; the end of an alert looks different."""
    spec = spec_with(tmp_path, "")
    raised, cleared = (notice(spec, event, kind="resnapshots") for event in (AlertRaised, AlertCleared))
    first, second = (one["text"] for one in _sent(receiver, tmp_path, raised, cleared))
    assert first.startswith(":large_yellow_circle: *shop: Resnapshots again and again (d.orders)*\n")
    assert "d.orders stopped: &lt;no&gt; date &amp; time.\n*What to do* Do it." in first
    assert second.startswith(":white_check_mark: *shop: cleared:")


def test_severities_can_be_changed_and_the_short_webhook_gets_all(receiver: Receiver, tmp_path: Path) -> None:
    """The generic format says the severity."""
    settings = 'webhook_env = "TIDEMARK_TEST_WEBHOOK"\nseverity = { table_stopped = "warning", lag = "critical" }\n'
    spec = spec_with(tmp_path, settings)
    got = _sent(receiver, tmp_path, notice(spec), notice(spec, kind="lag"), notice(spec, kind="new"), settings=settings)
    assert [(one["kind"], one["severity"]) for one in got] == [
        ("table_stopped", "warning"),
        ("lag", "critical"),
        ("new", "warning"),
    ]
    assert {"event", "ts", "pipeline", "run", "host", "message", "hint", "since", "repeat"} <= got[0].keys()


def test_a_route_that_is_down_delays_no_other(receiver: Receiver, tmp_path: Path) -> None:
    """Nor the caller, who learns of it by name."""
    problems: list[tuple[Any, ...]] = []
    down = ALL.format(url="http://127.0.0.1:9/x").replace('severities = ["warning"]', "")
    routes = Routes(spec_with(tmp_path, down).alerts, lambda *one: problems.append(one), _nothing)
    began = time.monotonic()
    routes.post(notice(spec_with(tmp_path, "")))
    assert time.monotonic() - began < 1
    deadline = time.monotonic() + 10
    while not (receiver.got and problems) and time.monotonic() < deadline:
        time.sleep(0.01)
    routes.close(0.2)
    assert len(receiver.got) == 1
    ((name, problem, retry_s),) = problems
    assert (name, retry_s) == ("pager", 1.0)
    assert "refused" in problem


def test_a_program_without_a_runner_can_announce_an_alert(receiver: Receiver, tmp_path: Path) -> None:
    """And is given the answers. A silence holds the alert back, but not its end."""
    spec, directory = spec_with(tmp_path, ALL.format(url=receiver.url)), Directory(tmp_path)
    lost = alert("runner_lost", None, message="The runner is gone.")
    assert {name: one.status for name, one in announce(spec, directory, lost).items()} == {"pager": 200}
    add_silence(directory, "1h", "planned", kind="runner_lost")
    assert announce(spec, directory, lost) == {}
    assert announce(spec, directory, alert())["pager"].problem == ""
    announce(spec, directory, alert("runner_lost", None, AlertCleared, message="The runner is gone."))
    assert [(one["event_action"], one["dedup_key"]) for one in receiver.got] == [
        ("trigger", "tidemark/shop/runner_lost"),
        ("trigger", "tidemark/shop/table_stopped/d.orders"),
        ("resolve", "tidemark/shop/runner_lost"),
    ]


def test_a_test_reaches_each_type_and_leaves_no_incident(receiver: Receiver, tmp_path: Path) -> None:
    """Whatever the severities of the route."""
    spec = spec_with(tmp_path, ALL.format(url=receiver.url))
    for name in ("pager", "chat"):
        assert send_test(spec.alerts, name, "shop", "ada").status == 200
    trigger, resolve, text = receiver.got
    assert (trigger["payload"]["severity"], resolve["event_action"]) == ("info", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert "ada tests a route of shop. Nothing is wrong." in text["text"]


def test_the_routes_of_the_documentation_work(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four, with the addresses of this test's servers in place of the example's."""
    text = PAGE.read_text(encoding="utf-8").partition("### Routes")[2].partition("```toml")[2].partition("```")[0]
    for variable, value in (("ALERTS_URL", receiver.url), ("PAGERDUTY_KEY", KEY), ("SMTP_PASSWORD", MAIL_PASSWORD)):
        monkeypatch.setenv(variable, value)
    (tmp_path / "url").write_text(receiver.url)
    certificate = make_certificate(tmp_path / "mail.pem")
    with mail_server(certificate) as mails:
        here = {
            'type = "pagerduty"': f'type = "pagerduty"\nendpoint = "{receiver.url}"',
            "/run/secrets/slack-url": str(tmp_path / "url"),
            '"smtp.example.com"': f'"127.0.0.1"\nport = {mails.port}\ntls_ca = "{certificate}"',
            'user = "tidemark"': f'user = "{USER}"',
        }
        for old, new in here.items():
            assert old in text
            text = text.replace(old, new)
        answers = announce(spec_with(tmp_path, text), Directory(tmp_path), alert())
    assert {name: one.problem for name, one in answers.items()} == dict.fromkeys(("oncall", "chat", "team", "own"), "")
    assert (len(receiver.got), len(mails.mails)) == (3, 1)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ('[alerts.routes.x]\ntype = "slack"', "a route of the type slack needs url_env or url_file"),
        ('[alerts.routes."a b"]\ntype = "slack"\nurl_env = "U"', "'a b' is not a name of a route"),
        (
            'webhook_env = "W"\n[alerts.routes.webhook]\ntype = "slack"\nurl_env = "U"',
            "give the other one another name",
        ),
        ('[alerts.routes.x]\ntype = "pagerduty"\nkey_env = "K"\nendpoint = "h"', "it is no URL"),
        ('severity = { lags = "critical" }', "the nearest is 'lag'"),
        ("[alerts.tables.'!d.*']\nlag_s = 1", "is not of the form database.table"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(tmp_path: Path, settings: str, fault: str) -> None:
    """With the spec."""
    with pytest.raises(SpecError) as raised:
        spec_with(tmp_path, settings)
    assert fault in raised.value.message


def test_a_secret_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent, and by `check` as a warning: the other route is right."""
    monkeypatch.delenv("TIDEMARK_TEST_KEY")
    settings = spec_with(tmp_path, ALL.format(url="http://h/")).alerts
    missing = "the environment variable TIDEMARK_TEST_KEY (alerts.routes.pager.key_env) is not set"
    assert broken_routes(settings) == {"pager": missing}
    checks = {one.name: (one.outcome, one.actual, bool(one.fix)) for one in check_routes(settings)}
    assert checks == {"route pager": ("warn", missing, True), "route chat": ("ok", "can be used", False)}
    monkeypatch.setenv("TIDEMARK_TEST_KEY", " ")
    assert "alerts.routes.pager.key_env or key_file is empty" in broken_routes(settings)["pager"]
