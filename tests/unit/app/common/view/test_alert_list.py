"""Which alerts are listed, which need attention, and how they are worded."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.common.view import alert_list
from app.common.view.runner_view import Away, Runner
from app.common.view.write_words import Unwritten
from engine.alerting.acknowledgements import Acknowledgement
from engine.alerting.silences import Silence
from engine.base.errors import ErrorRecord
from engine.history.alert_queries import Cleared
from engine.journal.alert_kinds import ALERTS
from engine.pipeline.active_alert import Alert
from engine.pipeline.frozen_runner import GONE_HINT, UnseenRunner
from engine.spec.alert_settings import Alerts as Settings
from engine.spec.alert_settings import TableAlerts
from tests.unit.app.support import AT, NOW, ago, frozen_runner, lag, runner

LAG = Alert(
    "lag", None, 75.2, 60.0, message="The pipeline is 75 s behind its source, more than 60 s.", hint="", since=AT
)
STOPPED = Alert("table_stopped", "d.t", message="d.t stopped", hint="Do it.", since=AT)
ADA = Acknowledgement("ada", "2026-01-31T15:31:00Z", "index rebuild", "lag", None, AT, 75.2)
LOST = runner("lost", alive=False)
FAILED = runner("failed", alive=False, error=ErrorRecord(message="It is purged.", hint="Copy."), exit_code=4)


def nobody(_: Alert) -> None:
    """Nothing is acknowledged."""


def listed(of: Runner, *standing: Alert, **more: Any) -> list[alert_list.Firing]:
    """The alerts of a pipeline."""
    return alert_list.firing_alerts(
        "shop", of, alert_list.standing_alerts(of, standing), more.pop("seen", nobody), **more
    )


def test_an_alert_has_its_value_its_threshold_and_what_to_do() -> None:
    """With the latest measurement, and the remedy that the terminal shows too."""
    (one,) = listed(runner(), LAG, lag=lag(90.4))
    assert (one.title, one.value, one.now, one.threshold) == ("Lag", "1 min 15 s", "1 min 30 s", "1 min")
    assert one.do == ALERTS["lag"].do
    assert (one.waits, one.known_at) == (True, None)
    assert alert_list.lasted(one, NOW + timedelta(minutes=5)) == "5 min"
    (table,) = listed(runner(), STOPPED)
    assert (table.title, table.table, table.value, table.threshold, table.now) == (
        "Table stopped",
        "d.t",
        "—",
        "—",
        "",
    )
    assert table.do == "Do it."


def test_an_alert_of_another_version_is_shown_as_it_is() -> None:
    """Its fields are shown, and some may be missing."""
    (one,) = listed(runner(), Alert("odd"))
    assert (one.title, one.message, one.do, one.since, alert_list.lasted(one, NOW)) == ("odd", "", "", None, "—")


def test_without_a_runner_alerts_are_only_the_last_known() -> None:
    """Its loss is an alert itself, and is current."""
    lost, stopped = listed(LOST, STOPPED, lag=lag(90.0))
    assert (lost.title, lost.known_at) == ("Runner lost", None)
    assert lost.since == LOST.last_seen
    assert f"kill -CONT {LOST.pid}, or end it with kill {LOST.pid}." in lost.do
    assert stopped.known_at == LOST.last_seen
    (old,) = listed(LOST, replace(LAG, since="2026-01-31T15:29:16.5Z"), lag=lag(90.0))[1:]
    assert (old.now, alert_list.lasted(old, NOW + timedelta(days=1))) == ("", "1 min")
    (ended,) = listed(runner("ended", alive=False), STOPPED)
    assert ended.known_at is not None


def test_a_runner_that_nobody_here_can_see_may_be_frozen() -> None:
    """Its alert does not claim that the process has ended, and says where to look."""
    lost = replace(LOST, unseen=UnseenRunner(7, "far", AT))
    (alert,) = listed(lost)
    assert (alert.kind, alert.known_at) == ("runner_lost", None)
    assert "Its process 7 is on far, which cannot be seen from here: it may have ended, hang or be stopped." in (
        alert.message
    )
    assert alert.do.startswith("Look on far: ps -o stat,args -p 7.")


def test_a_runner_whose_process_is_gone_has_nothing_to_end() -> None:
    """Its alert does not say "if the process is there"."""
    (alert,) = listed(replace(LOST, gone=True))
    assert (alert.kind, alert.do) == ("runner_lost", GONE_HINT)


def test_a_runner_that_starts_is_not_lost() -> None:
    """The alert about the run before clears when this one works."""
    earlier = [Alert("runner_lost", message="m", since=AT), Alert("not_restarted", message="m", since=AT), STOPPED]
    assert [one.kind for one in listed(runner("starting"), *earlier)] == ["table_stopped"]
    assert [one.kind for one in listed(LOST, *earlier)] == ["runner_lost", "not_restarted", "table_stopped"]


def test_a_frozen_runner_is_one_alert() -> None:
    """The watchdog's if it raised it, else one of the console's. Nobody can clear the others meanwhile.

    Both have the words of the pages, with the number of the process and what it does now.
    """
    raised = Alert("runner_frozen", message="m", hint="kill -CONT PID", since=AT)
    own, stopped = listed(frozen_runner(), Alert("runner_lost", message="m", since=AT), STOPPED)
    assert (own.kind, own.title, own.known_at, own.critical) == ("runner_frozen", "Runner not responding", None, True)
    assert own.do.startswith("Continue it: kill -CONT 7.")
    assert stopped.known_at == frozen_runner().last_seen
    (watched,) = listed(frozen_runner(), raised)
    assert (watched.message, watched.do, watched.standing.since) == (own.message, own.do, AT)
    assert listed(runner(), raised) == []
    assert alert_list.kinds_of_state(frozen_runner()) >= {"runner_frozen"}


def test_a_failed_run_is_one_alert() -> None:
    """Its own if the runner raised it, which is current then; else one of the console's."""
    raised = Alert("run_failed", value=4, message="m", hint="h", since=AT)
    for standing, value in (([raised], "exit code 4"), ([], "—")):
        (one,) = listed(FAILED, *standing)
        assert (one.title, one.value, one.known_at) == ("Run failed", value, None)
        assert one.do in ("h", "Copy.")
    assert listed(replace(FAILED, error=None, exit_code=1))[0].message == "The run failed: an unexpected error"
    (again,) = listed(runner("starting", alive=False), raised)
    assert again.known_at is not None


def test_measurements_are_not_current_while_the_source_is_away() -> None:
    """Nothing is measured then; other alerts are current."""
    away = replace(runner(), away=Away(ago(40), 3, ago(-2), "no route", None))
    measured, other = listed(away, LAG, STOPPED, lag=lag(90.0))
    assert (measured.known_at, measured.now) == (ago(40), "")
    assert other.known_at is None


def test_only_what_nobody_has_acknowledged_needs_attention() -> None:
    """In the list, and in the title of the browser's tab."""
    found = listed(LOST, LAG, STOPPED, seen=lambda one: ADA if one.kind == "lag" else None)
    assert [one.title for one in sorted(found, key=alert_list.order)] == ["Table stopped", "Runner lost", "Lag"]
    assert alert_list.page_title(sum(one.waits for one in found), "Live") == "(2) Live · Tidemark"
    assert alert_list.page_title(0, "Live") == "Live · Tidemark"
    assert alert_list.acknowledged_words(ADA) == "Acknowledged by ada at 2026-01-31 15:31:00 UTC: index rebuild"


def test_the_live_page_has_a_line_per_alert() -> None:
    """Red if it is critical, orange if not; gray if it is not current, or if somebody takes care of it."""
    found = [*listed(runner(), STOPPED), *listed(runner(), LAG, seen=lambda _: ADA), *listed(LOST, STOPPED)[1:]]
    assert alert_list.alert_lines(found) == [
        ("red", "Table stopped since 2026-01-31 15:30:17 UTC: d.t stopped"),
        (
            "gray",
            "Last known at 2026-01-31 15:30:16 UTC: Table stopped since 2026-01-31 15:30:17 UTC: d.t stopped",
        ),
        ("gray", f"Lag since 2026-01-31 15:30:17 UTC: {LAG.message} {alert_list.acknowledged_words(ADA)}"),
    ]


def test_a_warning_stands_below_what_is_critical_and_is_orange() -> None:
    """The spec decides which is which; a changed grant is not as urgent as a stopped table."""
    changed = Alert("source_changed", message="A grant is new.", since=AT)
    found = listed(runner(), changed, STOPPED)
    assert [colour for colour, _ in alert_list.alert_lines(found)] == ["red", "orange"]
    assert alert_list.alert_lines(found)[0][1].startswith("Table stopped")
    turned = Settings(severity={"source_changed": "critical", "table_stopped": "warning"})
    lines = alert_list.alert_lines(listed(runner(), changed, STOPPED, rules=turned))
    assert [(colour, line.split(" since")[0]) for colour, line in lines] == [
        ("red", "Source changed"),
        ("orange", "Table stopped"),
    ]


def test_a_resolved_alert_says_how_long_it_lasted_and_who_took_it() -> None:
    """The acknowledgement is found by the value that was raised."""
    asked = []

    def seen(pipeline: str, one: Alert) -> Acknowledgement | None:
        asked.append((pipeline, one))
        return ADA

    done = Cleared("shop", NOW + timedelta(seconds=90), None, "lag", AT, 75.2, 60.0, "m")
    (row,) = alert_list.resolved_rows([done], seen)
    assert asked == [("shop", Alert("lag", value=75.2, since=AT))]
    assert (row["Alert"], row["Duration"], row["Value"], row["Threshold"], row["Acknowledged by"]) == (
        "Lag",
        "1 min 30 s",
        "1 min 15 s",
        "1 min",
        "ada: index rebuild",
    )
    (bare,) = alert_list.resolved_rows([Cleared("x", NOW, "d.t", None, "torn", None, None, None)], lambda *_: None)
    assert (bare["Since"], bare["Duration"], bare["Acknowledged by"]) == (None, "—", "")


def test_the_rules_are_in_plain_words() -> None:
    """A threshold that is not set raises no alert."""
    settings = Settings(lag_s=90, webhook_env="X", tables={"shop.pay_*": TableAlerts(lag_s=5)})
    row, own = alert_list.threshold_rows("shop", settings)
    assert own == {**dict.fromkeys(row, ""), "Pipeline": "shop", "Tables": "shop.pay_*", "Lag above": "5.0 s"}
    assert row == {
        "Pipeline": "shop",
        "Tables": "all",
        "Lag above": "1 min 30 s",
        "Lag in bytes above": "no alert",
        "Retention left below": "6 h",
        "Mirror behind above": "15 min",
        "Disk full within": "1 d",
        "Duration": "1 min",
        "Repeated every": "4 h",
        "Routes": "webhook",
    }
    rows = alert_list.kind_rows()
    assert len(rows) == len(ALERTS)
    assert all(all(row.values()) for row in rows)


def test_a_full_disk_is_an_alert_although_the_alert_cannot_be_saved() -> None:
    """The runner cannot write its file of alerts then. It is listed once."""
    full = replace(runner("paused"), unwritten=Unwritten("disk", "disk full (log: no space)", "", NOW, 1))
    (one,) = listed(full)
    assert (one.kind, one.since, one.known_at) == ("disk_full", NOW, None)
    assert "disk full (log: no space)" in one.message
    assert one.do == ALERTS["disk_full"].do
    saved = Alert("disk_full", message="A disk is full.", since=AT)
    assert [one.message for one in listed(full, saved)] == ["A disk is full."]


def test_a_silenced_alert_is_listed_and_counts_as_ever() -> None:
    """With who silenced it, until when and why; a silence hides nothing."""
    silence = Silence("x", "ada", "index rebuild", AT, "2026-01-31T17:00:00.000000Z", "lag")
    found = listed(runner("running"), LAG, STOPPED, silenced=lambda one: silence if one.kind == "lag" else None)
    lag, stopped = found
    assert (lag.waits, stopped.silence) == (True, None)
    (_, other), (colour, text) = alert_list.alert_lines(found)
    assert colour == "orange"
    assert text.endswith("Silenced by ada until 2026-01-31 17:00:00 UTC: index rebuild")
    assert "Silenced" not in other


def test_nothing_is_said_to_be_sent_without_a_route() -> None:
    """One pipeline with a route is enough: the table of rules shows which."""
    assert "Nothing is sent" in alert_list.unsilenced([Settings(), Settings()])
    assert "every alert is sent" in alert_list.unsilenced([Settings(), Settings(webhook_env="HOOK")])
