"""The plan of a new pipeline: one row per table, the totals, and the chunk keys that a table could have."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.common.view import limits, words
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.history.table_queries import NewestPlan
from engine.plan.chunks import Plan
from engine.plan.keys import own_key, why_unordered
from engine.plan.mirror_labels import LABELS
from engine.plan.mirrors import mirror_of
from engine.plan.speed import seconds
from engine.spec.settings import Snapshot, Spec
from engine.spec.sink_settings import Sink
from engine.spec.throttle_settings import Throttle

_LOCAL = re.compile(r"local\[(\d+)")
BETWEEN = " · "
"""Separates the parts of `sums`."""
OF_READING = " of reading with "
"""In the part of `sums` about the time."""
FACTORS = 24
"""The most tables in the figure of distribution factors."""


@dataclass(frozen=True)
class PlannedTable:
    """A table of the plan."""

    table: str
    plan: Plan | None
    """None for a table that cannot be planned."""
    seconds: float | None
    """The expected time with all readers; None if it is unknown."""
    why: str
    """The reason for the strategy, or the error."""
    own: bool
    """Whether the spec has its own rules for the table."""
    mirror: str = ""
    """How its mirror is merged; empty for a table that cannot be planned."""


def readers_of(spec: Spec, cores: int) -> int:
    """How many chunks are read at once, by the spec.

    cores: this machine's, used for `local[*]` and as a guess for a cluster.
    """
    if spec.snapshot.readers:
        return spec.snapshot.readers
    if spec.spark.master == "local":
        return 1
    match = _LOCAL.match(spec.spark.master)
    return int(match[1]) if match else cores


def lines(
    tables: Sequence[Table],
    plans: Mapping[str, Plan | TidemarkError],
    snapshot: Snapshot,
    speed: float | None,
    readers: int,
    throttle: Throttle,
    sink: Sink,
) -> list[PlannedTable]:
    """One row per table: first those that cannot be planned, then by size."""
    plain = snapshot.model_copy(update={"tables": {}, "chunk_key": {}})
    planned_tables = []
    for table in tables:
        plan = plans[table.full_name]
        own = snapshot.rules(table.database, table.name) != plain.rules(table.database, table.name)
        if isinstance(plan, Plan):
            took, mirror = seconds(plan, speed, readers, throttle), LABELS[mirror_of(sink, table, plan)]
            planned_tables.append(PlannedTable(table.full_name, plan, took, plan.reason, own, mirror))
        else:
            planned_tables.append(PlannedTable(table.full_name, None, None, plan.message, own))
    return sorted(
        planned_tables,
        key=lambda line: (line.plan is not None, -line.plan.approx_bytes if line.plan else 0, line.table),
    )


def row(line: PlannedTable) -> dict[str, Any]:
    """The cells of a row."""
    plan = line.plan
    return {
        "Table": line.table,
        "Strategy": plan.strategy if plan else "none",
        "Chunks": f"{plan.estimated_chunks:,}" if plan else words.NOTHING,
        "Rows a chunk": words.NOTHING if plan is None or plan.strategy == "one" else f"{plan.chunk_rows:,}",
        "Time": words.duration(line.seconds),
        "Why": line.why,
        "Rows": words.count(plan.approx_rows) if plan else words.NOTHING,
        "Size": words.size(plan.approx_bytes) if plan else words.NOTHING,
        "Key": (", ".join(plan.chunk_key) or words.NOTHING) if plan else words.NOTHING,
        "Factor": words.NOTHING if plan is None or plan.factor is None else f"{plan.factor:.4g}",
        "Mirror": line.mirror or words.NOTHING,
        "Set": "by you" if line.own else "",
    }


def sums(tables: Sequence[PlannedTable], speed: float | None, readers: int, throttle: Throttle) -> str:
    """`3 tables · about 5.9M rows · 1.2 GB · about 120 chunks · about 40 s with 2 readers at 20 MB/s each`."""
    plans = [line.plan for line in tables if line.plan]
    parts = [
        words.plural(len(tables), "table"),
        f"about {words.count(sum(plan.approx_rows for plan in plans))} rows",
        words.size(sum(plan.approx_bytes for plan in plans)),
        f"about {words.plural(sum(plan.estimated_chunks for plan in plans), 'chunk')}",
    ]
    took = [line.seconds for line in tables if line.seconds is not None]
    if took and speed:
        at = f"{words.plural(throttle.readers or readers, 'reader')} at {words.size(speed)}/s each"
        rate = limits.rate(throttle.model_dump())
        most = f", at most {rate} in total" if rate else ""
        parts.append(f"about {words.duration(max(sum(took), 0.1))}{OF_READING}{at}{most}")
    return BETWEEN.join(parts)


def figure_plans(tables: Sequence[PlannedTable], lower: float, upper: float, now: datetime) -> list[NewestPlan]:
    """The tables for the figure of distribution factors: first those outside the bounds, then by rows."""
    some = [line.plan for line in tables if line.plan and line.plan.factor]
    some.sort(key=lambda plan: (lower <= (plan.factor or 0) <= upper, -plan.approx_rows))
    return [
        NewestPlan(
            plan.table,
            now,
            plan.approx_rows,
            ", ".join(plan.chunk_key),
            plan.minimum,
            plan.maximum,
            plan.factor,
            plan.strategy,
            plan.reason,
            plan.estimated_chunks,
            plan.chunk_rows,
            plan.estimated_chunks,
            complete=True,
            last_chunk=None,
        )
        for plan in some[:FACTORS]
    ]


def keys_for(table: Table) -> list[str]:
    """The columns that can be a chunk key: the first of an index, with ordered values."""
    own = own_key(table)
    first = own.columns[0].name if own else ""
    usable = [index.columns[0] for index in table.indexes if not why_unordered(table.column(index.columns[0]))]
    return [name for name in dict.fromkeys(usable) if name != first]


def own_key_label(table: Table) -> str:
    """The label of the default chunk key."""
    key = own_key(table)
    return f"its own key ({', '.join(key.names)})" if key else "its own key"
