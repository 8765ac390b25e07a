"""Which alerts are raised, from the journal's events."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.alerting.alerts import ActiveAlerts
from engine.base.clock import parse_utc, utc_text
from engine.journal import Entry
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.pipeline.active_alert import Alert, AlertName
from engine.spec.alert_settings import Alerts as Settings
from tests.support.entries import entry

BEGIN = parse_utc("2026-01-31T00:00:00.000000Z")
Notices = list[tuple[str, str, str | None, int]]


def line(event: str, at_s: float, **fields: Any) -> Entry:
    """A journal line, that many seconds after the start."""
    return entry(event, utc_text(BEGIN + timedelta(seconds=at_s)), **fields)


def lag(at_s: float, lag_s: float | None = 0.0, size: int | None = 0, runway_s: float | None = None) -> Entry:
    """A measurement of the lag."""
    return line("source.lag", at_s, lag_s=lag_s, lag_bytes=size, runway_s=runway_s)


def table(at_s: float, state: str, reason: str | None = None, hint: str | None = None) -> Entry:
    """A table's state."""
    return line("table.state", at_s, table="d.t", state=state, reason=reason, hint=hint)


def failed(at_s: float, exit_code: int = 4) -> Entry:
    """The end of a failed run."""
    error = {"error": "SourceLostError", "message": "It is purged.", "detail": "", "hint": "Copy again."}
    return line("run.ended", at_s, outcome="failed", exit_code=exit_code, error=error)


def notices(alerts: ActiveAlerts, *lines: Entry) -> Notices:
    """The notices that these lines cause: event, kind, table, repeat."""
    notices = [notice for heard in lines for notice in alerts.hear(heard)]
    return [(event.NAME.removeprefix("alert."), a.kind, a.table, a.repeat) for event, a in notices]


def test_a_lag_raises_an_alert_when_it_lasts_and_clears_it_when_gone_for_as_long() -> None:
    """A short peak or a short recovery does nothing; each notice comes once."""
    alerts = ActiveAlerts(Settings(lag_s=10, for_s=60))
    assert (
        notices(alerts, *(lag(s, 11) for s in range(0, 60, 2)), lag(60, 10), *(lag(s, 11) for s in range(62, 122, 2)))
        == []
    )
    (event, alert) = alerts.hear(lag(122, 12.4))[0]
    assert (event, alert.value, alert.threshold, alert.since) == (
        AlertRaised,
        12.4,
        10,
        utc_text(BEGIN + timedelta(seconds=62)),
    )
    assert alert.message == "The pipeline is 12 s behind its source, more than 10 s."
    assert (
        notices(alerts, *(lag(s, 99) for s in range(124, 400, 2)), lag(400, 1), lag(402, 11), lag(410, 1), lag(468, 1))
        == []
    )
    (event, alert) = alerts.hear(lag(470, 1))[0]
    assert (event, alert.message, alert.hint) == (AlertCleared, "The pipeline is 1 s behind its source.", "")
    assert alerts.as_list() == []


def test_bytes_and_runway_have_thresholds_of_their_own() -> None:
    """The default runway is six hours. An unlimited or unknown runway raises no alert."""
    alerts = ActiveAlerts(Settings(lag_bytes=1000, for_s=0))
    assert notices(alerts, lag(0, 99.0, 1000, 6 * 3600.0), lag(2, 99.0, 1000, None)) == []
    assert notices(alerts, lag(4, None, 1001, 6 * 3600.0 - 1)) == [
        ("raised", "lag_bytes", None, 0),
        ("raised", "runway", None, 0),
    ]
    assert notices(alerts, lag(6, None, None, 0.0)) == []
    assert notices(alerts, lag(8, None, 1, None)) == [("cleared", "lag_bytes", None, 0), ("cleared", "runway", None, 0)]
    never = ActiveAlerts(Settings(runway_s=0, for_s=0))
    assert notices(never, lag(0, 1e9, 10**12, 0.0)) == []


def test_a_disk_that_fills_up_soon_raises_an_alert() -> None:
    """A day by default. A disk that does not grow clears it."""

    def space(at_s: float, full_in_s: float | None) -> Entry:
        return line("disk.space", at_s, folder="/lake", free_bytes=10**9, total_bytes=10**10, full_in_s=full_in_s)

    alerts = ActiveAlerts(Settings(for_s=0))
    assert notices(alerts, space(0, None), space(60, 86_400.0)) == []
    ((event, alert),) = alerts.hear(space(120, 43_200.0))
    assert (event, alert.kind, alert.value, alert.threshold) == (AlertRaised, "disk_filling", 43_200.0, 86_400.0)
    assert alert.message == "The disk of /lake has 1.0 GB free, and is full in 12.0 h at the growth of the last day."
    assert notices(alerts, space(180, None)) == [("cleared", "disk_filling", None, 0)]
    assert notices(ActiveAlerts(Settings(disk_filling_s=0, for_s=0)), space(0, 1.0)) == []


def test_rows_that_differ_raise_an_alert_until_they_do_not_or_their_table_is_removed() -> None:
    """A removed table is not compared any more, so nothing else would clear it."""
    alerts = ActiveAlerts(Settings())
    differs, equals = (line("table.verified", n, table="d.t", differences=n, summary={}) for n in (3, 0))
    assert notices(alerts, differs, differs, equals) == [
        ("raised", "diverged", "d.t", 0),
        ("cleared", "diverged", "d.t", 0),
    ]
    assert notices(alerts, differs, table(6, "removed")) == [
        ("raised", "diverged", "d.t", 0),
        ("cleared", "diverged", "d.t", 0),
    ]


def test_hidden_changes_raise_an_alert_until_they_are_gone() -> None:
    """One per table, again with other names; and one for filters. Both say what to do."""

    def found(at_s: float, kind: str, table: str | None, *names: str) -> Entry:
        return line("source.hidden", at_s, kind=kind, table=table, names=names)

    alerts = ActiveAlerts(Settings())
    ((_, alert),) = alerts.hear(found(0, "cascade", "d.t", "a"))
    assert alert.message == "Foreign keys change rows of d.t without an event in the binlog: a."
    assert "tidemark verify SPEC --table d.t --repair" in alert.hint
    assert notices(
        alerts,
        found(1, "cascade", "d.t", "a"),
        found(2, "cascade", "d.t", "a", "b"),
        found(3, "binlog_filter", None, "d"),
        found(4, "cascade", "d.t"),
        found(5, "binlog_filter", None),
        found(6, "binlog_filter", None),
    ) == [
        ("raised", "cascade", "d.t", 0),
        ("raised", "binlog_filter", None, 0),
        ("cleared", "cascade", "d.t", 0),
        ("cleared", "binlog_filter", None, 0),
    ]
    assert notices(alerts, found(7, "cascade", "d.t", "a"), table(8, "removed")) == [
        ("raised", "cascade", "d.t", 0),
        ("cleared", "cascade", "d.t", 0),
    ]


def test_new_tables_that_are_not_captured_raise_an_alert_until_they_are() -> None:
    """It names them, ten at most, and says how to capture them."""

    def found(at_s: float, *names: str) -> Entry:
        return line("source.hidden", at_s, kind="new_tables", table=None, names=names)

    alerts = ActiveAlerts(Settings())
    ((_, alert),) = alerts.hear(found(0, "d.a"))
    assert alert.message == "New tables match source.tables and are not captured (source.new_tables): d.a."
    assert "tidemark add-table SPEC" in alert.hint
    ((_, alert),) = alerts.hear(found(1, *(f"d.t{n}" for n in range(13))))
    assert alert.message.endswith("d.t9 and 3 more.")
    assert notices(alerts, found(2)) == [("cleared", "new_tables", None, 0)]


def test_a_setting_that_the_source_lost_raises_an_alert_with_its_statement() -> None:
    """The statement depends on the server; without it, the remedy names the command that shows it."""

    def found(at_s: float, hint: str, *names: str) -> Entry:
        return line("source.hidden", at_s, kind="source_settings", table=None, names=names, hint=hint)

    alerts = ActiveAlerts(Settings())
    ((_, alert),) = alerts.hear(found(0, "SET PERSIST binlog_format = 'ROW';", "binlog_format is MIXED, not ROW"))
    assert alert.message == "The source's settings changed: binlog_format is MIXED, not ROW."
    assert alert.hint == "SET PERSIST binlog_format = 'ROW';"
    ((_, cleared),) = alerts.hear(found(1, ""))
    assert cleared.message == "The source has all required settings again."
    ((_, alert),) = alerts.hear(found(2, "", "binlog_format is MIXED, not ROW"))
    assert "tidemark check SPEC" in alert.hint


def test_a_table_that_the_account_may_not_read_raises_an_alert_at_once() -> None:
    """The end of an outage does not clear it; a granted privilege and a new run do."""
    since = "2026-01-31T00:00:00.000000Z"
    refused = line("source.refused", 1, table="d.t", since=since, message="No.", hint="GRANT SELECT")
    permitted, back = line("source.refused", 3, table="d.t", since=None), line("source.back", 2, since=since, seconds=1)
    connected = line("run.preflight", 2)
    name = ("privileges_missing", "d.t", 0)
    assert notices(ActiveAlerts(Settings()), refused, back, permitted) == [("raised", *name), ("cleared", *name)]
    assert notices(ActiveAlerts(Settings()), refused, connected, permitted) == [("raised", *name), ("cleared", *name)]


def test_alerts_of_a_lost_source_end_as_soon_as_the_next_run_has_logged_in() -> None:
    """Spark may need minutes to start, or may not start at all: the source is not at fault then."""
    for kind in ("source_away", "login_refused", "privileges_missing"):
        alerts = ActiveAlerts(Settings(), [Alert(kind, message="m", since=utc_text(BEGIN))])
        assert notices(alerts, line("run.preflight", 1)) == [("cleared", kind, None, 0)]


def test_a_read_that_stays_blocked_raises_an_alert_that_names_the_session() -> None:
    """After 30 s at most, and one per table, whoever holds the lock meanwhile. It clears when nothing waits."""

    def found(
        at_s: float, seconds: float, *sessions: dict[str, object], over: bool = False, hint: str = "KILL 42;"
    ) -> Entry:
        fields = {"lock": "table metadata lock", "sessions": sessions, "hint": hint}
        since = None if over else "2026-01-31T00:00:00.000000Z"
        return line("source.blocked", at_s, table="d.t", since=since, seconds=seconds, **fields)

    holder = {"connection": 42, "user": "app", "host": "10.0.0.7", "role": "holds", "lock": "EXCLUSIVE"}
    holder |= {"since": "2026-01-31T00:00:01.000000Z", "idle": True, "statement": "LOCK TABLES t WRITE"}
    alerts = ActiveAlerts(Settings())
    assert alerts.hear(found(2, 2.0, holder)) == []
    ((_, alert),) = alerts.hear(found(30, 30.0, holder))
    assert alert.message == (
        "Reads of d.t have waited for a table metadata lock on the source since 2026-01-31 00:00:00 UTC. Connection 42 "
        "(app@10.0.0.7) holds it (EXCLUSIVE), idle since 2026-01-31 00:00:01 UTC; last statement: LOCK TABLES t WRITE."
    )
    assert alerts.hear(found(31, 31.0, holder)) == []
    other = found(40, 40.0, {**holder, "connection": 43}, hint="KILL 43;")
    assert alerts.hear(other) == [], "a route would get a message at each look"
    assert "Connection 43" in alerts.standing["read_blocked", "d.t"].message
    assert alerts.standing["read_blocked", "d.t"].hint == "KILL 43;"
    assert notices(alerts, found(50, 0.0, over=True), found(51, 0.0, over=True)) == [
        ("cleared", "read_blocked", "d.t", 0),
    ]


def test_a_mirror_that_another_program_changes_raises_one_alert() -> None:
    """However often it writes again; the alert then has the new number of commits. It clears when its cause is gone."""

    def found(at_s: float, commits: int, version: int = 0) -> Entry:
        one = {"version": version, "operation": "DELETE", "author": "spark", "at": "2026-01-31T00:00:00.000000Z"}
        return line("mirror.written", at_s, table="d.t", commits=commits, newest=[one] if commits else [])

    alerts = ActiveAlerts(Settings())
    ((event, alert),) = alerts.hear(found(0, 1, 17))
    assert (event, alert.kind, alert.table, alert.value) == (AlertRaised, "mirror_written", "d.t", 1.0)
    what = "Another program changed rows of the mirror of d.t: version {} (DELETE by spark, 2026-01-31 00:00:00 UTC){}."
    assert alert.message == what.format(17, "") + " Rows may differ from the source."
    assert "tidemark verify SPEC --table d.t --repair" in alert.hint
    for heard, unsaved in ((found(1, 1, 17), False), (found(2, 4, 29), True), (table(3, "copying"), False)):
        alerts.unsaved = False
        assert notices(alerts, heard) == []
        assert alerts.unsaved == unsaved
    (standing,) = alerts.standing.values()
    assert (standing.value, standing.since) == (4.0, alert.since)
    assert standing.message.startswith(what.format(29, ", and 3 earlier commits"))
    assert notices(alerts, found(5, 0), found(6, 0), found(7, 1, 30), table(8, "removed")) == [
        ("cleared", "mirror_written", "d.t", 0),
        ("raised", "mirror_written", "d.t", 0),
        ("cleared", "mirror_written", "d.t", 0),
    ]


def test_a_damaged_alert_is_none() -> None:
    """Its kind and its table name it."""
    assert Alert.from_json({"kind": "lag", "table": ["d.t"]}) is None
    assert Alert.from_json({"kind": 7}) is None
    assert Alert.from_json({"kind": "lag"}) == Alert("lag")


def test_an_alert_says_what_is_true_now() -> None:
    """A table that stops again for another reason: it is the same alert, with the new one."""
    alerts = ActiveAlerts(Settings())
    assert len(notices(alerts, table(0, "stopped", "the date 0000-00-00 does not exist", "Correct it."))) == 1
    alerts.unsaved = False
    again = (table(5, "copying"), table(6, "stopped", "the date 2026-02-00 does not exist", "Correct this one."))
    assert notices(alerts, *again) == []
    standing = alerts.standing["table_stopped", "d.t"]
    assert standing.message == "d.t stopped: the date 2026-02-00 does not exist"
    assert (standing.hint, standing.since) == ("Correct this one.", utc_text(BEGIN))
    assert alerts.unsaved
    alerts.unsaved = False
    assert notices(alerts, table(7, "stopped", "the date 2026-02-00 does not exist", "Correct this one.")) == []
    assert not alerts.unsaved


def test_a_mirror_that_cannot_be_read_raises_one_alert() -> None:
    """Until a verification has read it, or the table is resnapshotted."""
    broken = {
        "at": "2026-01-31T00:00:00Z",
        "why": "its mirror cannot be read: no file",
        "hint": "Resnapshot it",
        "chunks": [],
    }
    lost, found = (
        line("table.verified", n, table="d.t", differences=0, summary=summary)
        for n, summary in enumerate(({"unreadable": broken}, {}))
    )
    for end in (found, table(1, "copying"), table(1, "removed")):
        alerts = ActiveAlerts(Settings())
        ((_, alert),) = alerts.hear(lost)
        assert (alert.message, alert.hint) == ("d.t: its mirror cannot be read: no file", "Resnapshot it")
        assert notices(alerts, lost, end) == [("cleared", "mirror_unreadable", "d.t", 0)]


def test_a_change_log_that_differs_raises_an_alert_until_it_does_not() -> None:
    """Only an audit of the same part clears it, or that the table is resnapshotted or removed."""

    def audit(at_s: float, again: str | None = None, **differing: int) -> Entry:
        tables = {name.replace("_", "."): count for name, count in differing.items()}
        fields = {"tables": 1, "images": 9, "differences": sum(tables.values()), "duration_s": 1.0}
        return line("audit.done", at_s, **fields, differing=tables, again=again, start="b.1:4", end="b.2:9")

    for state in ("copying", "removed"):
        alerts = ActiveAlerts(Settings())
        ((event, alert),) = alerts.hear(audit(0, d_t=2))
        assert (event, alert.kind, alert.table, alert.value) == (AlertRaised, "change_log_differs", "d.t", 2.0)
        assert alert.message == "The change log of d.t differs from the binlog from b.1:4 to b.2:9: 2 differences."
        assert notices(alerts, audit(1, d_t=1), audit(2), table(3, "streaming"), table(4, state)) == [
            ("cleared", "change_log_differs", "d.t", 0)
        ]
    alerts = ActiveAlerts(Settings())
    notices(alerts, audit(0, d_t=2), audit(1, d_u=1))
    assert notices(alerts, audit(2, "d.t", d_t=1), audit(3, "d.t"), audit(4, "d.t")) == [
        ("cleared", "change_log_differs", "d.t", 0)
    ]
    assert [alert["table"] for alert in alerts.as_list()] == ["d.u"]


def test_a_stopped_table_raises_an_alert_at_once_and_clears_it_when_it_streams() -> None:
    """With the table's remedy; during its resnapshot the alert stays."""
    alerts = ActiveAlerts(Settings())
    ((event, alert),) = alerts.hear(table(0, "stopped", "no date", "Set invalid_dates."))
    assert (event, alert.message, alert.hint) == (AlertRaised, "d.t stopped: no date", "Set invalid_dates.")
    assert notices(alerts, table(1, "stopped", "resnapshot"), table(2, "copying")) == []
    assert notices(alerts, table(3, "streaming"), table(4, "streaming")) == [("cleared", "table_stopped", "d.t", 0)]
    ((_, alert),) = alerts.hear(table(5, "stopped", "no date"))
    assert "redump SPEC --table d.t" in alert.hint
    assert notices(alerts, table(6, "removed"), table(7, "removed")) == [("cleared", "table_stopped", "d.t", 0)]


def test_an_alert_clears_within_seconds_of_its_cause() -> None:
    """Measurements come every two seconds: at the first one after `for_s` within the threshold. The others: at once."""
    for_s = 10
    for bad, good, kind in (
        (lag(0, 11), {"lag_s": 1.0}, "lag"),
        (lag(0, 0, 11), {"size": 1}, "lag_bytes"),
        (lag(0, 0, 0, 5.0), {"runway_s": 99.0}, "runway"),
    ):
        alerts = ActiveAlerts(Settings(lag_s=10, lag_bytes=10, runway_s=10, for_s=for_s))
        again = replace(bad, ts=utc_text(BEGIN + timedelta(seconds=for_s)))
        assert notices(alerts, bad, again) == [("raised", kind, None, 0)]
        cleared = [s for s in range(21, 61, 2) if notices(alerts, lag(s, **good))]
        assert cleared == [21 + for_s], "and only once"
    alerts = ActiveAlerts(Settings(for_s=for_s))
    alerts.hear(failed(0))
    alerts.hear(line("run.state", 20, state="running", reason=""))
    assert [s for s in range(21, 61, 2) if notices(alerts, lag(s))] == [31]
    for bad, end, kind in (
        (table(0, "stopped", "no"), table(1, "streaming"), "table_stopped"),
        (parked(0, 3), unparked(1, 0), "chunk_parked"),
        (line("error", 0, error="DiskFullError", message="full"), line("disk.freed", 1, attempts=1), "disk_full"),
    ):
        alerts = ActiveAlerts(Settings())
        alerts.hear(bad)
        assert [(found[0], found[1]) for found in notices(alerts, end)] == [("cleared", kind)]


def test_what_stands_is_repeated_seldom() -> None:
    """On measurements, which come every two seconds; not while it is about to be cleared."""
    alerts = ActiveAlerts(Settings(lag_s=10, for_s=10, repeat_s=60))
    alerts.hear(table(0, "stopped", "no"))
    found = notices(alerts, *(lag(s, 0.0) for s in range(0, 200, 2)))
    assert found == [("raised", "table_stopped", "d.t", n) for n in (1, 2, 3)]
    alerts = ActiveAlerts(Settings(lag_s=10, for_s=10, repeat_s=60))
    assert notices(alerts, lag(0, 11), lag(10, 11)) == [("raised", "lag", None, 0)]
    assert notices(alerts, lag(65, 1), lag(71, 1)) == []
    assert notices(alerts, lag(75, 1)) == [("cleared", "lag", None, 0)]


def test_a_failed_run_raises_one_alert_until_a_run_goes_well() -> None:
    """A service that restarts it causes no more; a run that lasts, or ends well, clears it."""
    alerts = ActiveAlerts(Settings(for_s=60, repeat_s=3600))
    ((event, alert),) = alerts.hear(failed(0))
    assert (event, alert.value, alert.message, alert.hint) == (
        AlertRaised,
        4,
        "The run failed: It is purged.",
        "Copy again.",
    )
    for at_s in (10, 20):
        alerts = ActiveAlerts(Settings(for_s=60, repeat_s=3600), list(alerts.standing.values()))
        started = line("run.state", at_s, state="running", reason="")
        assert notices(alerts, started, lag(at_s + 1), failed(at_s + 2)) == []
    other = [("cleared", "run_failed", None, 0), ("raised", "run_failed", None, 0)]
    assert notices(alerts, failed(30, 1), failed(40, 1)) == other, "another exit code is another failure"
    (standing,) = alerts.standing.values()
    assert standing.since == utc_text(BEGIN + timedelta(seconds=30))
    assert notices(alerts, failed(50)) == other
    assert notices(alerts, failed(3700)) == [("raised", "run_failed", None, 1)]
    running = [line("run.state", 4000, state="running", reason=""), lag(4002), lag(4009)]
    assert notices(alerts, *running) == []
    assert notices(alerts, lag(4010)) == [("cleared", "run_failed", None, 1)], "a good restart, long before for_s"
    alerts.hear(failed(5000))
    assert notices(alerts, line("run.ended", 5010, outcome="stopped", exit_code=0, error=None)) == [
        ("cleared", "run_failed", None, 0)
    ]


def test_alerts_outlive_a_run() -> None:
    """The file holds the raised alerts."""
    alerts = ActiveAlerts(Settings())
    alerts.hear(table(0, "stopped", "no"))
    later = ActiveAlerts(Settings(), [Alert(**record) for record in alerts.as_list()])
    assert later.standing == alerts.standing
    assert notices(later, table(9, "stopped", "no")) == []


EVENTS = st.one_of(
    st.builds(
        lambda s, b, r: lag(0, s, b, r),
        st.none() | st.floats(0, 99),
        st.none() | st.integers(0, 99),
        st.none() | st.floats(0, 99),
    ),
    st.sampled_from(["copying", "streaming", "stopped"]).map(lambda state: table(0, state, "r")),
    st.sampled_from([1, 4]).map(lambda code: failed(0, code)),
    st.sampled_from(["running", "paused"]).map(lambda state: line("run.state", 0, state=state, reason="")),
)


@given(st.lists(st.tuples(st.integers(1, 50), EVENTS), max_size=60), st.integers(0, 60))
def test_raised_and_cleared_take_turns(events: list[tuple[int, Entry]], for_s: int) -> None:
    """Per name: raised with repeat 0, then repeats 1, 2 …, then cleared once.

    The raised ones are the current alerts.
    """
    alerts = ActiveAlerts(Settings(lag_s=50, lag_bytes=50, runway_s=50, for_s=for_s, repeat_s=60))
    at_s, open_ = 0.0, dict[AlertName, int]()
    for step, event in events:
        at_s += step
        for name, alert in alerts.hear(replace(event, ts=utc_text(BEGIN + timedelta(seconds=at_s)))):
            if name is AlertRaised:
                assert alert.repeat == open_.get(alert.name, -1) + 1
                open_[alert.name] = alert.repeat
            else:
                assert open_.pop(alert.name) == alert.repeat
    assert set(alerts.standing) == set(open_)


def parked(at_s: float, chunk: int) -> Entry:
    """A chunk is parked."""
    facts = {"table": "d.t", "chunk": chunk, "attempts": 8, "message": "It was interrupted.", "hint": "Fix it."}
    return line("chunk.parked", at_s, **facts, parked=1)


def unparked(at_s: float, left: int) -> Entry:
    """A parked chunk is read."""
    return line("chunk.unparked", at_s, table="d.t", chunk=3, reason="it was read", parked=left)


def test_parked_chunks_raise_one_alert_per_table_until_none_is_left() -> None:
    """The first with its error and how to retry it; `status` lists the others."""
    alerts = ActiveAlerts(Settings())
    ((event, alert),) = alerts.hear(parked(0, 3))
    assert event is AlertRaised
    assert alert.message == (
        "Chunk 3 of d.t was parked after 8 attempts: It was interrupted. Everything else continues."
    )
    assert alert.hint == "Fix it. Then: tidemark resume SPEC --table d.t"
    assert notices(alerts, parked(1, 4), unparked(2, 1)) == []
    assert notices(alerts, unparked(3, 0), unparked(4, 0)) == [("cleared", "chunk_parked", "d.t", 0)]
    assert notices(alerts, parked(5, 3), table(6, "streaming")) == [
        ("raised", "chunk_parked", "d.t", 0),
        ("cleared", "chunk_parked", "d.t", 0),
    ]


def test_a_mirror_that_gets_nothing_raises_an_alert_until_it_has_everything() -> None:
    """Once, however often it is seen; a stop of the table has an alert of its own."""
    alerts, since = ActiveAlerts(Settings()), utc_text(BEGIN)
    behind = line("mirror.behind", 901, table="d.t", since=since, epoch=7)
    assert notices(alerts, behind, behind) == [("raised", "mirror_behind", "d.t", 0)]
    assert alerts.standing["mirror_behind", "d.t"].value == 901.0
    assert notices(alerts, line("mirror.behind", 999, table="d.t")) == [("cleared", "mirror_behind", "d.t", 0)]
    assert notices(alerts, behind, table(1000, "stopped")) == [
        ("raised", "mirror_behind", "d.t", 0),
        ("cleared", "mirror_behind", "d.t", 0),
        ("raised", "table_stopped", "d.t", 0),
    ]


def test_resnapshots_again_and_again_raise_an_alert_for_an_hour() -> None:
    """From a quarter of the limit on; one that was asked for does not count."""
    alerts = ActiveAlerts(Settings(), most_resnapshots=12)

    def again(at_s: float, count: int | None) -> Entry:
        return line("source.event", at_s, kind="resnapshotted", table="d.t", reason="why", within_hour=count)

    assert notices(alerts, again(1, 1), again(2, 2), again(3, None)) == []
    assert notices(alerts, again(4, 3), again(5, 4)) == [("raised", "resnapshots", "d.t", 0)]
    assert notices(alerts, lag(3604)) == []
    assert notices(alerts, lag(3605)) == [("cleared", "resnapshots", "d.t", 0)]


def test_a_table_that_resnapshots_itself_at_once_pages_nobody() -> None:
    """It does once its resnapshot is not possible."""
    alerts = ActiveAlerts(Settings())
    stopped = line("table.state", 0, table="d.t", state="stopped", reason="rows in doubt", resnapshots_itself=True)
    assert notices(alerts, stopped, table(1, "copying"), stopped) == []
    assert notices(alerts, table(2, "stopped", "no key")) == [("raised", "table_stopped", "d.t", 0)]
