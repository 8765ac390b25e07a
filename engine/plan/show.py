"""Plans as shown by `tidemark plan`: a table for people, JSON for programs."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from engine.decode.schema import Table
from engine.plan.chunks import Plan, Range, text
from engine.plan.coverage import unsplit_table
from engine.plan.planner import check_names, plan_tables
from engine.plan.speed import bytes_per_s, seconds
from engine.plan.splitting import split
from engine.settings import Snapshot, Throttle
from engine.source.connect import Connection

_STEP, _STEP_S = 1000, 3600.0


def chunks_of(connection: Connection, table: Table, plan: Plan) -> Iterator[Range]:
    """Yield all chunks in key order, split now; constant memory, however many there are."""
    coverage = unsplit_table(plan)
    while coverage.unsplit:
        coverage, chunks = coverage.after(
            split(connection, table, plan.key(table), plan, coverage.unsplit[0], _STEP, _STEP_S)
        )
        coverage = coverage.finish(chunk.number for chunk in chunks)
        yield from (chunk.limits for chunk in chunks)


def _planned(
    connection: Connection, tables: Sequence[Table], settings: Snapshot, throttle: Throttle, *, exact: bool
) -> Iterator[tuple[Table, Plan, float | None]]:
    """Yield each table with its plan and the estimated seconds (None if unknown)."""
    check_names(tables, settings)
    plans = plan_tables(connection, tables, settings, exact=exact)
    speed = bytes_per_s(connection, tables, plans) if exact else None
    readers = settings.readers or os.cpu_count() or 1
    for table, plan in zip(tables, plans, strict=True):
        yield table, plan, seconds(plan, speed, readers, throttle)


def json_parts(
    connection: Connection, tables: Sequence[Table], settings: Snapshot, throttle: Throttle, *, exact: bool
) -> Iterator[str]:
    """`plan --json` (docs/command-line.md) in parts. exact: walk keys and list every chunk; otherwise `chunks` is null."""
    yield '{"tables": ['
    for number, (table, plan, snapshot_s) in enumerate(_planned(connection, tables, settings, throttle, exact=exact)):
        estimated_s = None if snapshot_s is None else round(snapshot_s, 3)
        fields: dict[str, Any] = {**plan.summary(), "approx_bytes": plan.approx_bytes, "estimated_s": estimated_s}
        yield (", " if number else "") + json.dumps(fields, ensure_ascii=False)[:-1] + ', "chunks": '
        if not exact:
            yield "null}"
            continue
        yield "["
        for index, limits in enumerate(chunks_of(connection, table, plan)):
            chunk = {"index": index, "lower": text(limits.lower), "upper": text(limits.upper)}
            yield (", " if index else "") + json.dumps(chunk, ensure_ascii=False)
        yield "]}"
    yield "]}\n"


def text_table(
    connection: Connection, tables: Sequence[Table], settings: Snapshot, throttle: Throttle, *, exact: bool
) -> Group:
    """One line per table and one of totals, then the reason for each table's strategy."""
    grid = Grid(box=None, pad_edge=False, show_footer=True)
    planned = list(_planned(connection, tables, settings, throttle, exact=exact))
    rows, size = (sum(getattr(plan, name) for _, plan, _ in planned) for name in ("approx_rows", "approx_bytes"))
    known = [snapshot_s for _, _, snapshot_s in planned if snapshot_s is not None]
    chunks = sum(plan.estimated_chunks for _, plan, _ in planned)
    columns = [
        ("table", f"{len(planned):,} tables", "left"),
        ("rows about", f"{rows:,}", "right"),
        ("MB", f"{size / 1e6:,.1f}", "right"),
        ("key", "", "left"),
        ("factor", "", "right"),
        ("chunks", f"{chunks:,}", "right"),
        ("rows each", "", "right"),
        ("s", f"{sum(known):,.1f}" if known else "", "right"),
    ]
    for name, footer, side in columns:
        grid.add_column(name, footer, justify="right" if side == "right" else "left")
    for _, plan, snapshot_s in planned:
        grid.add_row(
            plan.table,
            f"{plan.approx_rows:,}",
            f"{plan.approx_bytes / 1e6:,.1f}",
            ", ".join(plan.chunk_key),
            "" if plan.factor is None else f"{plan.factor:g}",
            f"{plan.estimated_chunks:,}",
            f"{plan.chunk_rows:,}",
            "" if snapshot_s is None else f"{snapshot_s:,.1f}",
        )
    reasons = [f"{plan.table}: {plan.reason}" for _, plan, _ in planned]
    return Group(grid, "", *(Text(reason, overflow="fold") for reason in reasons))
