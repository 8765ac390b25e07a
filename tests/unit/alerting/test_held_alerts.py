"""Alerts under a silence are raised, held back, and sent if they outlast it; what routes know is always ended."""

from engine.alerting.alerts import ActiveAlerts
from engine.journal import Entry
from engine.pipeline.active_alert import Alert
from engine.spec.alert_settings import Alerts as Settings
from tests.unit.alerting.test_alerts import lag, line, table

Sent = list[tuple[str, str, int, bool]]
HOUR = 3600.0


class Silent:
    """Silences that a test switches."""

    def __init__(self) -> None:
        self.on = False

    def covers(self, _: Alert) -> bool:
        """Whether all alerts are silenced."""
        return self.on


def heard(alerts: ActiveAlerts, entry: Entry) -> Sent:
    """The notices of a line: event, kind, repeat, and whether routes get it."""
    return [(event.NAME.removeprefix("alert."), a.kind, a.repeat, not a.held) for event, a in alerts.hear(entry)]


def test_an_alert_that_outlasts_its_silence_is_sent_once_at_its_end() -> None:
    """It stands meanwhile, and is not repeated."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(repeat_s=HOUR), silenced=silent.covers)
    silent.on = True
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, False)]
    assert [alert["held"] for alert in alerts.as_list()] == [True]
    assert heard(alerts, lag(2 * HOUR)) == []
    later = ActiveAlerts(Settings(repeat_s=HOUR), alerts.standing.values(), silenced=silent.covers)  # another run
    assert heard(later, lag(3 * HOUR)) == []
    silent.on = False
    assert heard(later, lag(3 * HOUR + 2)) == [("raised", "table_stopped", 0, True)]
    assert heard(later, lag(3 * HOUR + 4)) == []
    assert heard(later, table(3 * HOUR + 6, "streaming")) == [("cleared", "table_stopped", 0, True)]


def test_an_alert_that_ends_within_its_silence_is_never_sent() -> None:
    """Neither its begin nor its end."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(), silenced=silent.covers)
    silent.on = True
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, False)]
    assert heard(alerts, table(9, "streaming")) == [("cleared", "table_stopped", 0, False)]


def test_the_end_of_an_alert_that_routes_know_is_sent_within_a_silence() -> None:
    """Otherwise the incident would stay open for ever; its repetitions wait."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(repeat_s=HOUR), silenced=silent.covers)
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, True)]
    silent.on = True
    assert heard(alerts, lag(2 * HOUR)) == []
    assert heard(alerts, table(2 * HOUR + 2, "streaming")) == [("cleared", "table_stopped", 0, True)]


def _filter(name: str) -> Entry:
    return line("source.hidden", 0, kind="binlog_filter", table=None, names=[name])


def test_an_alert_that_changes_under_a_silence_is_sent_at_its_end() -> None:
    """Routes know only what it said before. A later run sends it too."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(repeat_s=HOUR), silenced=silent.covers)
    assert heard(alerts, _filter("a")) == [("raised", "binlog_filter", 0, True)]
    silent.on = True
    assert heard(alerts, _filter("b")) == [("raised", "binlog_filter", 0, False)]
    later = ActiveAlerts(Settings(repeat_s=HOUR), [Alert(**one) for one in alerts.as_list()], silenced=silent.covers)
    assert heard(later, lag(2)) == []
    silent.on = False
    ((_, sent),) = later.hear(lag(4))
    assert ("b" in sent.message, sent.held) == (True, False)
    assert heard(later, lag(6)) == []


def test_a_failure_under_a_silence_is_sent_by_a_run_that_begins_after_it() -> None:
    """It stands until that run has worked for some seconds."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(for_s=60), silenced=silent.covers)
    silent.on = True
    error = {"error": "SparkLostError", "message": "No Spark.", "detail": "", "hint": ""}
    ended = line("run.ended", 0, outcome="failed", exit_code=1, error=error)
    assert heard(alerts, ended) == [("raised", "run_failed", 0, False)]
    silent.on = False
    later = ActiveAlerts(Settings(for_s=60), alerts.standing.values(), silenced=silent.covers)
    assert heard(later, lag(2)) == [("raised", "run_failed", 0, True)]
    assert heard(later, lag(4)) == []


def test_a_level_is_sent_as_it_is_at_the_end_of_its_silence() -> None:
    """Not as it was hours before."""
    silent = Silent()
    alerts = ActiveAlerts(Settings(lag_s=10, for_s=0), silenced=silent.covers)
    silent.on = True
    assert heard(alerts, lag(0, 11)) == [("raised", "lag", 0, False)]
    assert heard(alerts, lag(2, 500)) == []
    silent.on = False
    ((_, sent),) = alerts.hear(lag(4, 900))
    assert (sent.value, sent.message[:40]) == (900, "The pipeline is 900 s behind its source,")
