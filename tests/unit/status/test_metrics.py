"""A run's metrics in OpenMetrics, as its own parser reads them."""

import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from engine.base.clock import parse_utc
from engine.base.errors import SpecError, TidemarkError
from engine.journal import Entry, Journal
from engine.journal.events import RunState
from engine.ledger.state import State, TableState
from engine.pipeline.active_alert import Alert
from engine.pipeline.helpers import Helpers
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import Coverage
from engine.source.positions import Position
from engine.spec.settings import Metrics
from engine.status.counters import Seen
from engine.status.exporter import Exporter
from engine.status.metrics import families
from tests.support.entries import entry

TS = "2026-01-31T00:00:00.500000Z"
PLAN = Plan("d.t", 10, 100, ("id",), "PRIMARY", "0", "9", 1.0, "even", "", 100, 5).as_dict()
TABLES = {
    "d.t": TableState({}, PLAN, Coverage((Range(None, ("3",)),), ((0, 1),), {2: Range(("3",), None)}), rows_read=70),
    "d.s": TableState({}, PLAN, Coverage((Range(None, None),), ((0, 4),)), stopped=TidemarkError("no").to_record()),
}
STATE = State(
    7,
    "l",
    "i",
    Position("b.000001", 4),
    1,
    TABLES,
    {"Odd": 2},
    {"gtid": None, "position": "b.000001:4", "bytes": 4096, "events": 3},
)
Found = dict[tuple[str, ...], float]


def line(event: str, **fields: Any) -> Entry:
    """A journal line."""
    return entry(event, TS, **fields)


def epoch(**more: Any) -> Entry:
    """An epoch with ten changes."""
    fields = {"epoch": 7, "changes": 10, "tables": {"d.t": 10}, "table_kinds": {"d.t": [4, 3, 3, 0]}, "transactions": 2}
    fields |= {"bytes": 999, "timings": {"read": 0.5, "commit": 0.25}, "events": {"Xid": 2, "Write_rows": 5}}
    return line("epoch.committed", **fields, **more)


def finished(group: int, table: str = "d.t") -> Entry:
    """A finished chunk."""
    return line("chunk.finished", table=table, chunk=1, rows=50, group=group, timings={"read": 1.5, "write": 0.5})


def values(seen: Seen, state: State | None = STATE) -> dict[str, Found]:
    """Every sample: its name, then its label values without the pipeline's name."""
    found: dict[str, Found] = {}
    for metric in families("shop", seen, state):
        for sample in metric.samples:
            assert sample.labels["pipeline"] == "shop"
            labels = tuple(str(value) for name, value in sample.labels.items() if name != "pipeline")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def heard(*lines: Entry) -> Seen:
    """The counters after these lines."""
    seen = Seen()
    for event in lines:
        seen.hear(event)
    return seen


def test_the_log_is_counted_by_table_and_kind() -> None:
    """Over all epochs of the run."""
    found = values(heard(epoch(), epoch()))
    assert found["tidemark_changes_total"] == {("d.t", "+I"): 8, ("d.t", "-U"): 6, ("d.t", "+U"): 6, ("d.t", "-D"): 0}
    assert found["tidemark_log_events_total"] == {("Xid",): 4, ("Write_rows",): 10}
    assert found["tidemark_transactions_total"] == {(): 4}
    assert found["tidemark_log_read_bytes_total"] == {(): 1998}
    assert found["tidemark_epoch_seconds_count"] == {(): 2}
    assert found["tidemark_epoch_seconds_sum"] == {(): 1.5}
    assert found["tidemark_last_change_timestamp_seconds"] == {(): parse_utc(TS).timestamp()}
    assert found["tidemark_epoch"] == {(): 7}
    assert found["tidemark_unknown_events"] == {(): 2}
    assert found["tidemark_largest_transaction_bytes"] == {(): 4096}


def test_lag_runway_and_position_are_the_last_measured() -> None:
    """An unknown value has no sample, instead of 0."""
    measured = line(
        "source.lag",
        position="mysql-bin.000003:858",
        source_position="mysql-bin.000004:4",
        lag_s=1.5,
        lag_bytes=1000,
        percentiles={"p50": 0.1, "p95": 1.0, "p99": 1.2, "max": 1.5},
        log_freshness={"p50": 0.2, "p99": 0.9},
        mirror_freshness={"p50": 0.8, "p99": 2.5},
        sink_freshness={"files": {"p50": 0.4}, "bus": {"p50": 0.1}},
    )
    found = values(heard(measured))
    assert found["tidemark_source_lag_seconds"] == {(): 1.5}
    assert found["tidemark_source_lag_bytes"] == {(): 1000}
    assert found["tidemark_source_lag_quantile_seconds"] == {("0.5",): 0.1, ("0.95",): 1.0, ("0.99",): 1.2, ("1",): 1.5}
    assert found["tidemark_log_freshness_quantile_seconds"] == {("0.5",): 0.2, ("0.99",): 0.9}
    assert found["tidemark_mirror_freshness_quantile_seconds"] == {("0.5",): 0.8, ("0.99",): 2.5}
    assert found["tidemark_sink_freshness_quantile_seconds"] == {("files", "0.5"): 0.4, ("bus", "0.5"): 0.1}
    assert "tidemark_source_runway_seconds" not in found
    assert found["tidemark_position_info"] == {("mysql-bin.000003",): 1}
    assert found["tidemark_position_file_number"] == {(): 3}
    assert found["tidemark_position_offset_bytes"] == {(): 858}
    assert found["tidemark_source_position_file_number"] == {(): 4}
    assert found["tidemark_source_measured_timestamp_seconds"] == {(): parse_utc(TS).timestamp()}
    assert not [name for name in values(Seen(), None) if "lag" in name or "position" in name or name == "epoch"]


def test_a_source_that_is_away_is_not_connected() -> None:
    """Before the first connection it is unknown; each retry counts."""
    assert "tidemark_source_connected" not in values(Seen(), None)
    away = line("source.away", attempt=1)
    seen = heard(away, away)
    assert values(seen)["tidemark_source_connected"] == {(): 0}
    seen.hear(line("source.back"))
    assert values(seen)["tidemark_source_connected"] == {(): 1}
    assert values(seen)["tidemark_source_away_tries_total"] == {(): 2}


def test_tables_and_chunks_are_those_of_the_committed_state() -> None:
    """So they are right after a restart."""
    found = values(Seen())
    assert found["tidemark_tables"] == {("copying",): 1, ("streaming",): 0, ("stopped",): 1, ("removed",): 0}
    assert found["tidemark_table_state"][("d.s", "stopped")] == 1
    assert found["tidemark_table_state"][("d.t", "stopped")] == 0
    assert found["tidemark_chunks"] == {("d.t",): 3, ("d.s",): 5}
    assert found["tidemark_chunks_done"] == {("d.t",): 2, ("d.s",): 5}
    assert found["tidemark_table_rows"] == {("d.t",): 70, ("d.s",): 0}
    assert found["tidemark_snapshot_completed"] == {(): 0}
    assert found["tidemark_phase"] == {("starting",): 0, ("snapshot",): 1, ("streaming",): 0}


def test_states_are_exported_by_name() -> None:
    """One of them is 1."""
    found = values(heard(line("run.state", state="paused")), None)
    assert [name for name, value in found["tidemark_run_state"].items() if value] == [("paused",)]
    assert found["tidemark_phase"][("starting",)] == 1


def test_readers_are_busy_until_their_group_is_reported() -> None:
    """Never more than exist; a group ends with its tables and with its server."""
    spark = {"master": "local[2]", "slots": 2}
    source = {"server": "s", "version": "9.7", "flavor": "mysql", "uuid": "u", "watermark_class": "gtid"}
    seen = heard(line("run.connected", source=source, spark=spark))

    def busy(*lines: Entry) -> float:
        for event in lines:
            seen.hear(event)
        return values(seen)["tidemark_readers_busy"][()]

    def assigned(group: int, table: str = "d.t") -> Entry:
        return line("chunk.assigned", table=table, chunks=[1], group=group)

    assert busy(assigned(1)) == 1
    assert busy(assigned(2), assigned(2, "d.s"), assigned(3)) == 2
    assert busy(finished(1), finished(2)) == 1
    assert busy(line("chunk.failed", table="d.t", chunks=[1], group=3)) == 0
    assert busy(assigned(4), assigned(5, "d.s"), line("table.state", table="d.s", state="stopped")) == 1
    assert busy(line("source.event", kind="resnapshotted", table="d.t")) == 0
    assert busy(assigned(6), assigned(1)) == 1
    found = values(seen)
    assert found["tidemark_rows_copied_total"] == {("d.t",): 100}
    assert found["tidemark_chunk_seconds_sum"] == {("d.t",): 4}
    assert found["tidemark_chunk_failures_total"] == {("d.t",): 1}
    assert found["tidemark_source_info"] == {("mysql", "9.7", "gtid"): 1}


def test_destination_errors_and_alerts_are_counted() -> None:
    """A raised alert is 1."""
    alert = {"kind": "table_stopped", "table": "d.t"}
    applied = {"sink": "delta", "table": "d.t", "kind": "merge", "rows": 5, "duration_s": 0.5}
    lines = [line("sink.applied", **applied, through_epoch=n) for n in (3, 4)]
    seen = heard(*lines, line("error", message="m"), line("alert.raised", **alert), line("alert.raised", kind="lag"))
    found = values(seen)
    assert found["tidemark_sink_applied_epoch"] == {("d.t", "merge"): 4}
    assert found["tidemark_sink_rows_total"] == {("d.t", "merge"): 10}
    assert found["tidemark_sink_apply_seconds_sum"] == {("merge",): 1.0}
    assert found["tidemark_errors_total"] == {(): 1}
    assert found["tidemark_alerts"] == {("lag", ""): 1, ("table_stopped", "d.t"): 1}
    seen.hear(line("alert.cleared", **alert))
    assert values(seen)["tidemark_alerts"] == {("lag", ""): 1}


def test_it_is_scraped_as_openmetrics(tmp_path: Path) -> None:
    """Also without an Accept header; every family has a help text, and its name ends with the unit."""
    journal = Journal(tmp_path / "j.jsonl", "r")
    port = _free_port()
    standing = [Alert("run_failed")]
    exporter = Exporter("shop", Metrics(port=port), journal, Helpers(journal), lambda: STATE, standing)
    journal.write(RunState(state="running"))
    for written in (epoch(), finished(1)):
        journal.write(written.event)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    found = {metric.name: metric for metric in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert text.endswith("# EOF\n")
    assert found["tidemark_changes"].type == "counter"
    assert found["tidemark_epoch_seconds"].unit == "seconds"
    assert found["tidemark_run_state"].type == "stateset"
    assert found["tidemark_build"].type == "info"
    assert [s.labels["kind"] for s in found["tidemark_alerts"].samples] == ["run_failed"]
    assert all(metric.documentation for metric in found.values())
    relatives = ("RemainingTableCount", "RowsScanned", "LastTransactionId", "TotalNumberOfEventsSeen", "numRecordsIn")
    assert all(name in text for name in relatives)
    for settings in (Metrics(port=port), Metrics(port=port, host="no.such.host.invalid")):
        with pytest.raises(SpecError, match=f"cannot be served on .*:{port}") as raised:
            Exporter("other", settings, journal, Helpers(journal), lambda: None)
        assert raised.value.exit_code == 2
    exporter.close()
    journal.close()
    Exporter("other", Metrics(port=port), journal, Helpers(journal), lambda: None).close()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
