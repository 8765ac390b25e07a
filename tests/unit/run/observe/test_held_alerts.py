"""Alerts under a silence are raised, held back, and sent if they outlast it; what routes know is always ended."""

from engine.alert_settings import Alerts as Settings
from engine.journal import Entry
from engine.run.observe.active_alert import Alert
from engine.run.observe.alerts import Alerts
from tests.unit.run.observe.test_alerts import lag, table

Sent = list[tuple[str, str, int, bool]]
HOUR = 3600.0


class Silent:
    """Silences that a test switches."""

    def __init__(self) -> None:
        self.on = False

    def covers(self, _: Alert) -> bool:
        """Whether all alerts are silenced."""
        return self.on


def heard(alerts: Alerts, entry: Entry) -> Sent:
    """The notices of a line: event, kind, repeat, and whether routes get it."""
    return [(event.NAME.removeprefix("alert."), a.kind, a.repeat, not a.held) for event, a in alerts.hear(entry)]


def test_an_alert_that_outlasts_its_silence_is_sent_once_at_its_end() -> None:
    """It stands meanwhile, and is not repeated."""
    silent = Silent()
    alerts = Alerts(Settings(repeat_s=HOUR), silenced=silent.covers)
    silent.on = True
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, False)]
    assert [alert["held"] for alert in alerts.as_list()] == [True]
    assert heard(alerts, lag(2 * HOUR)) == []
    later = Alerts(Settings(repeat_s=HOUR), alerts.standing.values(), silenced=silent.covers)  # another run
    assert heard(later, lag(3 * HOUR)) == []
    silent.on = False
    assert heard(later, lag(3 * HOUR + 2)) == [("raised", "table_stopped", 0, True)]
    assert heard(later, lag(3 * HOUR + 4)) == []
    assert heard(later, table(3 * HOUR + 6, "streaming")) == [("cleared", "table_stopped", 0, True)]


def test_an_alert_that_ends_within_its_silence_is_never_sent() -> None:
    """Neither its begin nor its end."""
    silent = Silent()
    alerts = Alerts(Settings(), silenced=silent.covers)
    silent.on = True
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, False)]
    assert heard(alerts, table(9, "streaming")) == [("cleared", "table_stopped", 0, False)]


def test_the_end_of_an_alert_that_routes_know_is_sent_within_a_silence() -> None:
    """Otherwise the incident would stay open for ever; its repetitions wait."""
    silent = Silent()
    alerts = Alerts(Settings(repeat_s=HOUR), silenced=silent.covers)
    assert heard(alerts, table(0, "stopped")) == [("raised", "table_stopped", 0, True)]
    silent.on = True
    assert heard(alerts, lag(2 * HOUR)) == []
    assert heard(alerts, table(2 * HOUR + 2, "streaming")) == [("cleared", "table_stopped", 0, True)]
