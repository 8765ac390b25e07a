"""Thresholds of some tables: one alert a rule for the lag, and the age of a mirror by table."""

from datetime import timedelta

import pytest

from engine.alerting.alerts import ActiveAlerts
from engine.base import clock
from engine.destination.missing_epochs import MissingEpochs
from engine.journal import Entry
from engine.run.monitors.unpublished_monitor import too_old
from engine.spec import alert_settings
from engine.spec.alert_settings import Alerts as Settings
from engine.spec.alert_settings import TableAlerts
from tests.unit.alerting.test_alerts import BEGIN, Notices, lag, line, notices

SETTINGS = Settings(
    lag_s=60,
    for_s=0,
    mirror_behind_s=900,
    tables={
        "shop.*": TableAlerts(lag_s=300),
        "shop.pay_*": TableAlerts(lag_s=10, mirror_behind_s=30),
        "shop.audit": TableAlerts(mirror_behind_s=7200),
    },
)


def state(name: str, state: str) -> Entry:
    """A table's state."""
    return line("table.state", 0, table=name, state=state)


def test_a_table_follows_the_last_rule_that_matches() -> None:
    """One alert a rule, however many tables it has; the pipeline's threshold is for all others."""
    alerts = ActiveAlerts(SETTINGS)
    notices(alerts, *(state(f"shop.{name}", "streaming") for name in ("orders", "pay_a", "pay_b")))
    assert notices(alerts, lag(1, 11)) == [("raised", "lag", "shop.pay_*", 0)]
    (standing,) = alerts.as_list()
    assert standing["message"] == "2 tables of shop.pay_* are 11 s behind the source, more than 10 s."
    assert (standing["value"], standing["threshold"]) == (11, 10)
    assert notices(alerts, lag(2, 99)) == [], "no table follows the pipeline's 60 s"
    notices(alerts, state("crm.people", "copying"))
    assert notices(alerts, lag(3, 99)) == [("raised", "lag", None, 0)]
    assert notices(alerts, lag(4, 400)) == [("raised", "lag", "shop.*", 0)]
    cleared: Notices = [("cleared", "lag", one, 0) for one in ("shop.*", "shop.pay_*", None)]
    assert sorted(notices(alerts, lag(5, 1)), key=str) == sorted(cleared, key=str)


def test_a_rule_whose_tables_are_gone_has_no_alert() -> None:
    """A stopped table has one of its own. A rule that the spec lost is cleared by the next run."""
    alerts = ActiveAlerts(SETTINGS)
    notices(alerts, state("shop.pay_a", "streaming"), lag(1, 11))
    assert [name for name in alerts.standing if name[0] == "lag"] == [("lag", "shop.pay_*")]
    later = ActiveAlerts(Settings(lag_s=60, for_s=0), alerts.standing.values())
    assert notices(later, lag(2, 11)) == [("cleared", "lag", "shop.pay_*", 0)]
    notices(alerts, state("shop.pay_a", "stopped"))
    assert notices(alerts, lag(3, 11)) == [("cleared", "lag", "shop.pay_*", 0)]


def test_tables_are_matched_once_per_set_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each look: 1,000 tables and 8 globs took 43 ms every two seconds.

    A table that comes or goes is matched.
    """
    matched: list[str] = []
    selects = alert_settings._selects

    def counted(glob: str, table: str) -> bool:
        matched.append(table)
        return selects(glob, table)

    monkeypatch.setattr(alert_settings, "_selects", counted)
    alerts = ActiveAlerts(SETTINGS)
    notices(alerts, *(state(f"shop.{name}", "streaming") for name in ("orders", "pay_a")))
    notices(alerts, *(lag(second, 11) for second in range(3)))
    once = len(matched)
    assert set(matched) == {"shop.orders", "shop.pay_a"}
    notices(alerts, state("shop.orders", "streaming"), *(lag(second, 11) for second in range(3, 9)))
    assert len(matched) == once
    notices(alerts, state("shop.pay_b", "copying"), lag(9, 11))
    assert "shop.pay_b" in matched
    notices(alerts, state("shop.pay_a", "removed"), state("shop.pay_b", "removed"))
    assert notices(alerts, lag(10, 11)) == [("cleared", "lag", "shop.pay_*", 0)]


def test_the_age_of_a_mirror_has_the_threshold_of_its_table() -> None:
    """The monitor looks by the shortest one."""
    now = clock.utc_now()
    found = {
        f"shop.{name}": MissingEpochs(clock.utc_text(now - timedelta(seconds=age_s)), 1)
        for name, age_s in (("pay_a", 31), ("pay_b", 29), ("orders", 901), ("audit", 7000))
    }
    assert set(too_old(found, SETTINGS, now)) == {"shop.pay_a", "shop.orders"}
    assert SETTINGS.shortest_mirror_behind_s() == 30
    alerts = ActiveAlerts(SETTINGS)
    since = clock.utc_text(BEGIN - timedelta(seconds=40))
    notices(alerts, line("mirror.behind", 0, table="shop.pay_a", since=since, epoch=1))
    assert [(a["value"], a["threshold"]) for a in alerts.as_list()] == [(40.0, 30.0)]
