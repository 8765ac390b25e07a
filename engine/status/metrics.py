"""A run's metrics as OpenMetrics families, from the journal's counts and the committed state. Pure.

Names are Tidemark's own, in base units. Each help text names the related Debezium and Flink CDC metrics, which
operators know. Counters start with the run (`status.counters`); each scrape calls `families`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
    SummaryMetricFamily,
)

from engine import __version__
from engine.base import clock
from engine.base.write_causes import WRITE_ALERTS
from engine.ledger.state import State
from engine.pipeline.state_machines import PIPELINE, START, TABLE
from engine.status.counters import Seen, Timed

PHASES = ("starting", "snapshot", "streaming")
_FRESHNESS = "Percentiles, over ten minutes, of the time from a commit on the source until its changes are in the {}."
_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}


def families(pipeline: str, seen: Seen, state: State | None) -> Iterator[Metric]:
    """All metrics as of now. state: the committed state, None before there is one."""
    make = _Families(pipeline)
    yield from _run(make, seen, state)
    yield from _source(make, seen)
    yield from _disk(make, seen)
    yield from _writing(make, seen)
    yield from _log(make, seen, state)
    yield from _tables(make, seen, state)
    yield from _sink(make, seen)
    yield from _verifications(make, seen)


@dataclass(frozen=True)
class _Families:
    """Creates metric families; each sample has the pipeline's name as its first label."""

    pipeline: str

    def gauge(self, name: str, text: str, value: float | None) -> Iterator[Metric]:
        """A gauge without labels; nothing if its value is unknown."""
        if value is not None:
            yield from self.gauges(name, text, (), {(): value})

    def gauges(self, name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Iterator[Metric]:
        """A gauge with labels."""
        made = GaugeMetricFamily(f"tidemark_{name}", text, labels=("pipeline", *labels), unit=_unit(name))
        for named, value in values.items():
            made.add_metric((self.pipeline, *_texts(named)), value)
        yield made

    def counter(self, name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Iterator[Metric]:
        """A counter with labels; the library adds `_total` to the name."""
        made = CounterMetricFamily(f"tidemark_{name}", text, labels=("pipeline", *labels), unit=_unit(name))
        for named, value in values.items():
            made.add_metric((self.pipeline, *_texts(named)), value)
        yield made

    def summary(self, name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, Timed]) -> Iterator[Metric]:
        """A summary: count and total seconds."""
        made = SummaryMetricFamily(f"tidemark_{name}", text, labels=("pipeline", *labels), unit=_unit(name))
        for named, timed in values.items():
            made.add_metric((self.pipeline, *_texts(named)), timed.count, timed.seconds)
        yield made

    def states(self, name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, dict[str, bool]]) -> Metric:
        """A state set."""
        made = StateSetMetricFamily(f"tidemark_{name}", text, labels=("pipeline", *labels))
        for named, among in values.items():
            made.add_metric((self.pipeline, *_texts(named)), among)
        return made

    def info(self, name: str, text: str, values: dict[str, str]) -> Metric:
        """An info metric: text facts."""
        made = InfoMetricFamily(f"tidemark_{name}", text, labels=("pipeline",))
        if values:
            made.add_metric((self.pipeline,), values)
        return made


def _run(make: _Families, seen: Seen, state: State | None) -> Iterator[Metric]:
    yield make.info("build", "The version that runs.", {"version": __version__})
    yield make.info("source", "The source server, and the class of its low watermarks.", seen.source)
    states = [name for name in PIPELINE.transitions if name != START]
    yield make.states("run_state", "The runner's state.", (), {(): {s: s == seen.state for s in states}})
    phase = "starting" if state is None else "streaming" if state.copied else "snapshot"
    text = "The pipeline's phase. Debezium: SnapshotRunning; Flink CDC: isSnapshotting, isStreamReading."
    yield make.states("phase", text, (), {(): {name: name == phase for name in PHASES}})
    yield from make.gauge(
        "snapshot_completed",
        "1 when every table that did not stop is copied. Debezium: SnapshotCompleted.",
        None if state is None else float(state.copied),
    )
    yield from make.counter(
        "errors", "Failures that were retried. Debezium: NumberOfDisconnects.", (), {(): seen.errors}
    )
    yield from make.gauges(
        "alerts",
        "Active alerts, by kind and table (empty: the whole pipeline).",
        ("kind", "table"),
        dict.fromkeys(sorted(seen.alerts), 1),
    )


def _disk(make: _Families, seen: Seen) -> Iterator[Metric]:
    space = seen.space
    yield from make.gauge(
        "disk_free_bytes", "Free space of the destination's disk.", space.free_bytes if space else None
    )
    yield from make.gauge("disk_total_bytes", "Its size.", space.total_bytes if space else None)
    yield from make.gauge(
        "disk_full_in_seconds",
        "Until it is full, at the growth of the last day; absent if it does not grow.",
        space.full_in_s if space else None,
    )


def _writing(make: _Families, seen: Seen) -> Iterator[Metric]:
    text = "Why the run writes nothing: a disk, or the store of the destination. None is set while it can write."
    yield make.states("write_outage", text, (), {(): {cause: cause == seen.unwritten for cause in WRITE_ALERTS}})
    yield from make.counter(
        "store_away_tries",
        "Tries to reach a store of the destination that does not answer or refuses.",
        (),
        {(): seen.store_tries},
    )
    yield from make.counter("store_requests", "Requests to buckets, noted every ten minutes.", ("kind",), seen.requests)


def _source(make: _Families, seen: Seen) -> Iterator[Metric]:
    lag = seen.lag
    yield from make.gauge(
        "source_connected",
        "0 while the run waits for an unreachable source. Debezium: Connected.",
        float(not seen.away) if seen.source or seen.tries else None,
    )
    yield from make.counter("source_away_tries", "Tries to connect to an unreachable source.", (), {(): seen.tries})
    yield from make.gauge(
        "source_lag_seconds",
        "Lag by the source's clock; 0 when nothing is outstanding. Debezium: MilliSecondsBehindSource; Flink CDC: "
        "currentFetchEventTimeLag, currentEmitEventTimeLag.",
        lag.lag_s if lag else None,
    )
    yield from make.gauge(
        "source_lag_bytes",
        "Binlog between the committed position and the source's end.",
        lag.lag_bytes if lag else None,
    )
    for name, help_text, percentiles in (
        ("source_lag_quantile_seconds", "Percentiles of the lag over ten minutes.", lag and lag.percentiles),
        ("log_freshness_quantile_seconds", _FRESHNESS.format("change log"), lag and lag.log_freshness),
        ("mirror_freshness_quantile_seconds", _FRESHNESS.format("mirror"), lag and lag.mirror_freshness),
    ):
        samples = {_QUANTILES[quantile]: value for quantile, value in (percentiles or {}).items()}
        yield from make.gauges(name, help_text, ("quantile",), samples)
    sinks = lag.sink_freshness.items() if lag else ()
    yield from make.gauges(
        "sink_freshness_quantile_seconds",
        _FRESHNESS.format("further sink"),
        ("sink", "quantile"),
        {(sink, _QUANTILES[quantile]): value for sink, ages in sinks for quantile, value in ages.items()},
    )
    yield from make.gauge(
        "source_runway_seconds",
        "Until the source may purge the committed position's file.",
        lag.runway_s if lag else None,
    )
    yield from make.gauge(
        "mirror_age_seconds",
        "For how long the oldest change that a mirror lacks has been in the change log; 0 if mirrors lack nothing.",
        lag.mirror_age_s if lag else None,
    )
    yield from make.gauge(
        "source_measured_timestamp_seconds", "When lag and retention left were last measured.", seen.measured_s
    )
    for name, which, position in (
        ("position", "Committed position", lag.position if lag else ""),
        ("source_position", "The source's end", lag.source_position if lag else ""),
    ):
        file, _, offset = position.rpartition(":")
        relative = "Debezium: BinlogFilename, BinlogPosition" if name == "position" else ""
        yield make.info(name, f"{which}: the binlog file. {relative}".strip(), {"file": file} if file else {})
        number = file.rpartition(".")[2]
        yield from make.gauge(
            f"{name}_file_number", f"{which}: the file's number.", int(number) if number.isdigit() else None
        )
        yield from make.gauge(
            f"{name}_offset_bytes", f"{which}: the offset in its file.", int(offset) if offset.isdigit() else None
        )


def _log(make: _Families, seen: Seen, state: State | None) -> Iterator[Metric]:
    yield from make.gauge("epoch", "The last committed epoch.", state.epoch if state else None)
    yield from make.summary(
        "epoch_seconds",
        "Epochs of this run: how many, and the time to read and commit them.",
        (),
        {(): seen.epochs},
    )
    yield from make.counter(
        "transactions",
        "Transactions read. Debezium: NumberOfCommittedTransactions (its LastTransactionId is the position here).",
        (),
        {(): seen.totals["transactions"]},
    )
    yield from make.counter("log_read_bytes", "Binlog read. Flink CDC: numBytesIn.", (), {(): seen.totals["bytes"]})
    yield from make.counter(
        "log_events",
        "Binlog events of every table, by type. Debezium: TotalNumberOfEventsSeen.",
        ("type",),
        dict(sorted(seen.events.items())),
    )
    yield from make.counter(
        "changes",
        "Changes committed. Debezium: TotalNumberOfCreateEventsSeen, …Update…, …Delete…; Flink CDC: numRecordsIn.",
        ("table", "kind"),
        dict(sorted(seen.changes.items())),
    )
    yield from make.gauge(
        "last_change_timestamp_seconds",
        "When changes were last committed. Its age is Debezium's MilliSecondsSinceLastEvent, Flink's sourceIdleTime.",
        seen.changed_s,
    )
    if state is None:
        return
    yield from make.gauge(
        "unknown_events",
        "Events skipped since the pipeline began, because this version does not know them; should be 0. "
        "Debezium: NumberOfSkippedEvents.",
        sum(state.unknown.values()),
    )
    largest = state.largest or {}
    yield from make.gauge(
        "largest_transaction_bytes", "The largest transaction since the pipeline began.", largest.get("bytes")
    )
    yield from make.gauge(
        "largest_transaction_events", "Events of the largest transaction, by bytes.", largest.get("events")
    )


def _verifications(make: _Families, seen: Seen) -> Iterator[Metric]:
    verifications = seen.verifications
    yield from make.gauges(
        "differences",
        "Rows that differed from the source when their table was last verified in this run.",
        ("table",),
        {name: event.differences for name, event in verifications.items()},
    )
    yield from make.gauges(
        "verified_timestamp_seconds",
        "When the part of the table was verified whose verification is the oldest.",
        ("table",),
        {name: clock.parse_utc(at).timestamp() for name, event in verifications.items() if (at := event.summary.at)},
    )


def _tables(make: _Families, seen: Seen, state: State | None) -> Iterator[Metric]:
    captured = state.tables if state else {}
    states = [name for name in TABLE.transitions if name != START]
    all_tables = {**captured, **(state.removed if state else {})}
    count = Counter(table.state for table in all_tables.values())
    yield from make.gauges(
        "tables",
        "Tables by state. Debezium: RemainingTableCount (copying), TotalTableCount (all); Flink CDC: "
        "numTablesRemaining, numTablesSnapshotted.",
        ("state",),
        {name: count[name] for name in states},
    )
    yield make.states(
        "table_state",
        "Each table's state.",
        ("table",),
        {name: {s: s == table.state for s in states} for name, table in all_tables.items()},
    )
    by_table: tuple[tuple[str, str, dict[str, int]], ...] = (
        (
            "chunks",
            "Number of chunks; an estimate until the table is completely split.",
            {n: t.chunks for n, t in captured.items()},
        ),
        (
            "chunks_done",
            "Chunks committed. Flink CDC: numSnapshotSplitsFinished.",
            {n: t.coverage.done for n, t in captured.items()},
        ),
        (
            "table_rows",
            "Rows of the committed chunks. Debezium: RowsScanned.",
            {n: t.rows_read for n, t in captured.items()},
        ),
    )
    for name, text, values in by_table:
        yield from make.gauges(name, text, ("table",), values)
    yield from make.counter("rows_copied", "Rows of chunks read in this run.", ("table",), seen.rows)
    yield from make.summary(
        "chunk_seconds",
        "Chunks read in this run: how many (Flink CDC: numSnapshotSplitsProcessed), and the time it took.",
        ("table",),
        seen.chunks,
    )
    yield from make.counter("chunk_failures", "Failed chunk reads.", ("table",), seen.failures)
    yield from make.gauge("readers", "Spark slots.", seen.slots)
    yield from make.gauge("readers_busy", "Readers that are reading chunks.", min(len(seen.groups), seen.slots))


def _sink(make: _Families, seen: Seen) -> Iterator[Metric]:
    labels = ("table", "kind")
    yield from make.gauges("sink_applied_epoch", "The last epoch applied to the destination.", labels, seen.sink_epoch)
    yield from make.counter("sink_rows", "Rows written to the destination.", labels, seen.sink_rows)
    yield from make.summary(
        "sink_apply_seconds", "Commits to the destination: how many, and the time they took.", ("kind",), seen.sink
    )


def _unit(name: str) -> str:
    """The unit for OpenMetrics, which wants it declared and at the end of the name; "" for none."""
    return next((unit for unit in ("seconds", "bytes") if name.endswith(f"_{unit}")), "")


def _texts(named: Any) -> tuple[str, ...]:
    return named if isinstance(named, tuple) else (str(named),)
