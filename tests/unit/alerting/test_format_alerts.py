"""The alert of an Iceberg table that lacks commits."""

from engine.alerting.alerts import ActiveAlerts
from engine.spec.alert_settings import Alerts as Settings
from tests.unit.alerting.test_alerts import line, notices


def test_an_iceberg_table_that_falls_behind_raises_an_alert() -> None:
    """With the reason and its hint; cleared when it has all commits, or the table leaves."""
    since, name = "2026-01-31T00:00:00.000000Z", ("format_behind", "d.t", 0)
    fields = {"table": "d.t", "place": "/lake/d/t__iceberg", "since": since}
    full = line("format.behind", 1, **fields, failure="No space left.", hint="Free some.")
    slow, back = line("format.behind", 1, **fields), line("format.behind", 2, table="d.t")
    removed = line("table.state", 3, table="d.t", state="removed")
    alerts = ActiveAlerts(Settings())
    assert notices(alerts, full) == [("raised", *name)]
    alert = alerts.standing["format_behind", "d.t"]
    assert "/lake/d/t__iceberg lacks the commits since 00:00:00 UTC" in alert.message.replace("2026-01-31 ", "")
    assert alert.message.endswith("No space left")
    assert alert.hint == "Free some."
    assert notices(alerts, back) == [("cleared", *name)]
    assert notices(ActiveAlerts(Settings()), slow, removed) == [("raised", *name), ("cleared", *name)]
