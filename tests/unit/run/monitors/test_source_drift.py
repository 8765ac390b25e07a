"""What is reported of a source that changes while a pipeline runs."""

from engine.journal.verification_events import HiddenChanges
from engine.run.commands.heartbeat import Activity
from engine.run.monitors.hidden_monitor import interval_s
from engine.run.monitors.source_drift import SourceDrift
from engine.source.source_facts import Fact

FORMAT: Fact = ("setting", "binlog_format")
SYNC: Fact = ("setting", "sync_binlog")
GRANT: Fact = ("grant", "*.*")
BEGINNING = {FORMAT: "ROW", SYNC: "1", GRANT: "SELECT", ("certificate", "certificate"): "CN=a"}


def names(events: list[HiddenChanges]) -> list[tuple[str, ...]]:
    """The names of each event."""
    assert {one.kind for one in events} <= {"source_changed"}
    return [tuple(one.names) for one in events]


def test_a_change_is_reported_once_with_both_values_until_it_is_changed_back() -> None:
    """Also one that has gone, such as a grant. The heartbeat has all of them, and when they were seen."""
    activity = Activity()
    drift = SourceDrift(activity, alerted=False)
    drift.begin(BEGINNING)
    drift.begin({**BEGINNING, SYNC: "0"})  # a later preflight is no beginning
    assert names(drift.news(BEGINNING)) == []
    assert activity.source is not None
    assert (activity.source["facts"], activity.source["changes"]) == (4, [])
    changed = {**BEGINNING, SYNC: "0", ("certificate", "certificate"): "CN=b"}
    del changed[GRANT]
    expected = ("TLS certificate was CN=a, is CN=b", "grants on *.* was SELECT, is none", "sync_binlog was 1, is 0")
    assert not drift.differs
    assert names(drift.news(changed)) == [expected]
    assert names(drift.news(changed)) == []
    assert interval_s(changed=drift.differs) <= 5.0, "that it was changed back shows soon"
    seen = {one["name"]: one["seen"] for one in activity.source["changes"]}
    assert set(seen) == {"certificate", "*.*", "sync_binlog"}
    assert names(drift.news({**BEGINNING, SYNC: "0"})) == [("sync_binlog was 1, is 0",)]
    assert activity.source["changes"][0]["seen"] == seen["sync_binlog"]
    assert names(drift.news(BEGINNING)) == [()]
    assert interval_s(changed=drift.differs) == 60.0


def test_a_required_setting_has_an_alert_of_its_own() -> None:
    """It is among the changes, but not among the names of this alert."""
    drift = SourceDrift(Activity(), alerted=False)
    drift.begin(BEGINNING)
    (event,) = drift.news({**BEGINNING, FORMAT: "MIXED"}, ["binlog_format"])
    assert (event.names, [one["after"] for one in event.changes]) == ((), ["MIXED"])
    assert names(drift.news({**BEGINNING, FORMAT: "MIXED"}, ["binlog_format"])) == []


def test_an_alert_of_an_earlier_run_ends_when_a_run_begins() -> None:
    """The new run begins with the new values."""
    drift = SourceDrift(Activity(), alerted=True)
    assert names(drift.news(BEGINNING)) == [()]
    assert names(drift.news(BEGINNING)) == []
