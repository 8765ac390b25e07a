"""The status shows who takes care of an alert."""

import json
import os
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from engine.alerting.acknowledgements import acknowledge, occurrence
from engine.base import processes
from engine.base.wording import utc_time
from engine.journal import Journal
from engine.journal.events import LagMeasured, RunState
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.frozen_runner import FrozenRunner
from engine.pipeline.runner_record import FailingHelper, SourceOutage
from engine.pipeline.saved_lists import list_text
from engine.pipeline.write_outage import WriteOutage
from engine.status.status import status
from engine.status.status_records import AlertOwner, Status, TableStatus
from engine.status.status_text import first_line, print_status

AT = "2026-11-27T03:40:00.000000Z"
STOPPED_TABLE = TableStatus(
    table="shop.orders",
    state="stopped",
    chunks_done=1,
    chunks_total=1,
    rows_read=9,
    changes_applied=0,
    dates_nulled={},
    error="It stopped.",
    hint=None,
    destination=None,
    parked=(),
    reading=None,
    mirror=None,
    verification=None,
    lacks_since=None,
    due=None,
)


def test_an_acknowledged_alert_names_the_operator(tmp_path: Path) -> None:
    """In the JSON, and as text."""
    where = Directory(tmp_path)
    alert = Alert(
        "lag",
        value=75.2,
        since="2026-01-31T15:30:17.000000Z",
        message="The pipeline is 75 s behind.",
        hint="Resume it.",
    )
    where.alerts.write_text(list_text("alerts", [alert.to_json()]))
    assert [one.acknowledged for one in status(where, "shop").alerts] == [None]
    made = acknowledge(where, alert, actor="ada", note="index rebuild")
    found = status(where, "shop")
    assert found.alerts[0].acknowledged == AlertOwner("ada", made.at, "index rebuild")
    out = StringIO()
    print_status(Console(file=out, width=200), found)
    assert f"behind. Resume it. Acknowledged by ada at {utc_time(made.at)}." in out.getvalue()


def test_the_text_of_a_stopped_table_is_printed_once(tmp_path: Path) -> None:
    """Its alert says since when; another alert keeps its text."""
    where, hint = Directory(tmp_path), "Correct the value in the source."
    stop = Alert("table_stopped", "shop.orders", message="shop.orders stopped: no date.", hint=hint, since=AT)
    lag = Alert("lag", message="The pipeline is 75 s behind.", hint="Resume it.", since=AT)
    where.alerts.write_text(list_text("alerts", [stop.to_json(), lag.to_json()]))
    table = replace(STOPPED_TABLE, error="shop.orders: no date.", hint=hint)
    out = StringIO()
    print_status(Console(file=out, width=500), replace(status(where, "shop"), tables=(table,)))
    text = out.getvalue()
    assert (text.count("no date."), text.count(hint)) == (1, 1)
    assert f"alert since {utc_time(AT)}: shop.orders stopped" in text
    assert "behind. Resume it." in text


def test_an_acknowledgement_of_a_newer_version_hides_no_status(tmp_path: Path) -> None:
    """The alert then counts as not acknowledged."""
    where = Directory(tmp_path)
    alert = Alert("lag", value=75.2, since="2026-01-31T15:30:17.000000Z")
    where.alerts.write_text(list_text("alerts", [alert.to_json()]))
    acknowledge(where, alert, actor="ada")
    (tmp_path / "acknowledged" / f"{occurrence(alert)}.json").write_text('{"format": 9}')
    assert [one.acknowledged for one in status(where, "shop").alerts] == [None]


def test_how_soon_changes_can_be_read_is_printed_while_the_lag_is_known(tmp_path: Path) -> None:
    """Without a current lag, the figures are of another time."""
    found = status(Directory(tmp_path), "shop")
    log = replace(found.log, log_freshness_s={"p50": 0.31, "p99": 0.92}, mirror_freshness_s={"p50": 1.0, "p99": 2.6})
    words = "changes can be read in the change log after 0.3 s (p99 0.9 s), in the mirrors after 1.0 s (p99 2.6 s)"
    for lag_s, count in ((0.4, 1), (None, 0)):
        out = StringIO()
        print_status(Console(file=out, width=500), replace(found, log=log, lag_s=lag_s))
        assert out.getvalue().count(words) == count


def line(tmp_path: Path, **more: Any) -> str:
    """The first line of a status with these facts."""
    usual = {"state": "running", "phase": "streaming", "position": "b.000001:4"}
    return first_line(replace(status(Directory(tmp_path), "shop"), **usual | more)).partition("; position")[0]


def test_the_first_line_says_what_the_lights_say(tmp_path: Path) -> None:
    """A phase is that of a live run; nobody paused a pipeline that waits for room."""
    at = "2026-11-27T03:40:00.000000Z"
    away = SourceOutage(at, 1, at, "Nobody answers.", None)
    stopped = (STOPPED_TABLE, replace(STOPPED_TABLE, table="shop.items", state="streaming", error=None))
    assert line(tmp_path) == "shop: running, streaming"
    assert line(tmp_path, away=away) == "shop: source unreachable since 2026-11-27 03:40:00 UTC"
    assert (
        line(tmp_path, away=replace(away, refused=True, cause="login"))
        == "shop: login refused since 2026-11-27 03:40:00 UTC"
    )
    assert line(tmp_path, state="paused", write_outage=WriteOutage("disk", "disk full (log)")) == "shop: disk full"
    assert (
        line(tmp_path, state="paused", write_outage=WriteOutage("store_away", "store away (log)")) == "shop: store away"
    )
    silent = FailingHelper("Spark", "HelperError", "Spark does not answer since then.", at)
    assert line(tmp_path, helpers=(silent,)) == "shop: Spark does not answer"
    assert line(tmp_path, helpers=(replace(silent, helper="inbox"),)) == "shop: running, streaming"
    assert line(tmp_path, state="lost", heartbeat_age_s=50.6) == "shop: runner lost, last heartbeat 51 s ago"
    assert line(tmp_path, state="frozen", heartbeat_age_s=91.2) == "shop: not responding, last heartbeat 1 min 31 s ago"
    assert line(tmp_path, state="failed") == "shop: failed"
    assert line(tmp_path, state="paused") == "shop: paused"
    assert line(tmp_path, state="never started") == "shop: not started"
    assert line(tmp_path, tables=stopped) == "shop: running, streaming; 1 table stopped: shop.orders"


def test_a_runner_without_a_heartbeat_is_frozen(tmp_path: Path) -> None:
    """Here this process, whose heartbeat is old. What it said of itself is left out; what to do follows the state."""
    where, now = Directory(tmp_path), processes.here()
    away = {"since": AT, "attempt": 1, "next_try": AT, "error": "no route", "gives_up_at": None}
    record = {"run": "r1", "state": "paused", "pid": os.getpid(), "host": "h", "heartbeat": AT, "away": away}

    def found(age_s: float) -> Status:
        process = {**now, "monotonic_s": now["monotonic_s"] - age_s}
        where.runner.write_text(json.dumps({"format": 1, **record, "process": process}))
        return status(where, "shop")

    late, old = found(3), found(91)
    assert (late.state, late.frozen, late.away is None) == ("paused", None, False)
    assert (old.state, old.frozen, old.away) == ("frozen", FrozenRunner(os.getpid(), "h", AT, stopped=False), None)
    assert old.to_json()["frozen"]["pid"] == os.getpid()
    out = StringIO()
    print_status(Console(file=out, width=500), old)
    first, second = out.getvalue().splitlines()[:2]
    assert first.startswith("shop: not responding, last heartbeat 1 min 31 s ago")
    assert second.startswith(f"Process {os.getpid()} on h is there, but does not respond: no heartbeat since 2026-")
    assert "Committed data is complete" in second
    assert f"kill {os.getpid()}, or else kill -9" in second


def test_a_runner_that_starts_is_not_lost(tmp_path: Path) -> None:
    """As the page Alerts has it: the alert about the run before clears when this one works."""
    where, now = Directory(tmp_path), processes.here()
    kinds = ("runner_lost", "runner_frozen", "not_restarted", "run_failed")
    where.alerts.write_text(list_text("alerts", [Alert(kind, message="m", since=AT).to_json() for kind in kinds]))
    record = {"run": "r2", "state": "starting", "pid": os.getpid(), "host": "h", "heartbeat": AT}

    def shown(age_s: float, **more: Any) -> tuple[str, ...]:
        process = {**now, "monotonic_s": now["monotonic_s"] - age_s}
        where.runner.write_text(json.dumps({"format": 1, **record, "process": process, **more}))
        return tuple(one.kind for one in status(where, "shop").alerts)

    assert shown(1) == ("run_failed",)
    assert shown(91) == ("runner_frozen", "run_failed")
    assert shown(1, state="ended") == kinds


def test_before_the_first_commit_there_is_no_position_and_no_lag(tmp_path: Path) -> None:
    """A first start may fail. A lag is only said once it was measured."""
    now = replace(status(Directory(tmp_path), "shop"), state="failed")
    assert first_line(now) == "shop: failed; nothing is committed yet"
    committed = replace(now, position="b.000001:4")
    assert first_line(committed) == "shop: failed; position b.000001:4; lag not measured yet"
    assert first_line(replace(committed, measured=AT)) == "shop: failed; position b.000001:4; lag unknown"


def test_a_failed_start_does_not_forget_the_lag(tmp_path: Path) -> None:
    """Its journal has no measurement. The console finds that of the run before, too."""
    where = Directory(tmp_path)
    before = Journal(where.journal("20260131T153000Z-aaaaaa"), "20260131T153000Z-aaaaaa")
    before.write(LagMeasured(position="b.1:9", source_position="b.1:21", lag_s=40.0))
    before.close()
    failed = Journal(where.journal("20260131T153100Z-bbbbbb"), "20260131T153100Z-bbbbbb")
    failed.write(RunState(state="starting"))
    failed.close()
    found = status(where, "shop")
    assert found.lag_s is None
    assert found.lag_at_most_s is not None
    assert 40 <= found.lag_at_most_s < 400
