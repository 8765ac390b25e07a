"""What a pipeline asks of its source: now, and in the last hour and day.

It follows from the journal; the source is not asked.
"""

from collections.abc import Mapping
from typing import Any

from app.common.view import words
from engine.history.cost_queries import ReaderSeconds, SourceCost


def of_snapshot(
    cost: ReaderSeconds, rows_s: float | None, binlog: SourceCost, window_s: float
) -> list[tuple[str, str]]:
    """(label, value) of the load now. cost, binlog: those of the last `window_s`."""
    return [
        ("Rows read", words.rate(rows_s, "rows")),
        ("SELECTs at once", f"{(cost.read_s + cost.watermarks_s) / window_s:.1f} on average"),
        ("Chunks", f"{cost.chunks * 60 / window_s:,.0f} a minute"),
        ("Files", f"{words.size(cost.bytes / window_s)}/s"),
        ("Binlog", f"{words.size((binlog.binlog_bytes + binlog.backfill_bytes) / window_s)}/s"),
    ]


def polled(loads: Mapping[str, float], throttle: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """(label, value with its limit, whether it is above it) of what the throttle polls. loads: `runner.json`'s."""
    readings = []
    for name, value in loads.items():
        if name in (throttle.get("replicas") or ()):
            limit, unit = float(throttle.get("max_replica_lag_s") or 0.0), " s"
            label = f"Lag of {name}"
        else:
            limits = {**(throttle.get("critical_load") or {}), **(throttle.get("max_load") or {})}
            limit, unit, label = float(limits.get(name, 0.0)), "", name
        readings.append((label, f"{value:g}{unit} of {limit:g}{unit}", value > limit))
    return readings


def asked_rows(spans: dict[str, SourceCost]) -> list[dict[str, str]]:
    """A row for each kind of read. spans: what was asked, by the name of the time."""
    rows = [
        {"Read": kind} | {name: _cell(kind, one) for name, one in spans.items()}
        for kind in ("Chunks", "Backfill", "Binlog", "Redumps")
    ]
    return [row for row in rows if any(value != words.NOTHING for name, value in row.items() if name != "Read")]


def _cell(kind: str, one: SourceCost) -> str:
    """Bytes, seconds and number; `—` if nothing of the kind was read."""
    if kind == "Chunks":
        parts = [
            words.plural(one.chunks, "chunk"),
            f"{words.count(one.rows)} rows",
            _size_time(one.file_bytes, one.read_s),
        ]
        return " · ".join(parts) if one.chunks else words.NOTHING
    if kind == "Backfill":
        return _size_time(one.backfill_bytes, one.backfill_s) if one.backfill_bytes else words.NOTHING
    if kind == "Binlog":
        parts = [words.plural(one.epochs, "epoch"), _size_time(one.binlog_bytes, one.binlog_s)]
        return " · ".join(parts) if one.epochs else words.NOTHING
    return f"{words.count(one.redumped_rows)} rows" if one.redumped_rows else words.NOTHING


def _size_time(size: float, seconds: float) -> str:
    return f"{words.size(size)} · {words.duration(seconds)}"
