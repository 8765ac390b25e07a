"""Plans as shown by `tidemark plan`: a table for people, JSON for programs."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from engine.base.errors import TidemarkError
from engine.base.text_grid import text_grid
from engine.base.wording import NOTHING, plural, sentences
from engine.decode.schema import Table
from engine.plan.chunks import Plan, Range, text
from engine.plan.coverage import unsplit_table
from engine.plan.merge_costs import merge_cost
from engine.plan.mirror_labels import LABELS
from engine.plan.mirrors import (
    EXCLUDED,
    MirrorAdvice,
    age,
    counted_in,
    mirror_advice,
    mirror_of,
    per_day,
    rate_text,
)
from engine.plan.next_chunks import split
from engine.plan.planner import check_names, plan_tables
from engine.plan.request_costs import StoreCost, month_text, requests_per_day
from engine.plan.speed import bytes_per_s, seconds
from engine.source.change_rates import ChangeRates, recent_changes
from engine.source.connect import Connection
from engine.source.endpoint import endpoint_of
from engine.source.preflight import refused
from engine.spec.settings import Spec
from engine.spec.sink_settings import Merging

_STEP, _STEP_S = 1000, 3600.0
_FACTOR = (
    "factor: the distribution factor of the chunk key, (max - min + 1) / rows. 1 is a key without gaps; within the "
    "bounds of [snapshot], the key is split evenly."
)


def not_captured(name: str, error: TidemarkError) -> Plan:
    """The plan of a table that cannot be captured."""
    reason = error.message.removeprefix(f"{name} is ")
    return Plan(name, 0, 0, (), "", None, None, None, "one", sentences(reason, error.hint), 0, 0)


def chunks_of(connection: Connection, table: Table, plan: Plan) -> Iterator[Range]:
    """Yield all chunks in key order, split now; constant memory, however many there are."""
    if table.unfit:
        return
    coverage = unsplit_table(plan)
    while coverage.unsplit:
        coverage, chunks = coverage.after(
            split(connection, table, plan.key(table), plan, coverage.unsplit[0], _STEP, _STEP_S)
        )
        coverage = coverage.finish(chunk.number for chunk in chunks)
        yield from (chunk.limits for chunk in chunks)


def _planned(
    connection: Connection, tables: Sequence[Table], spec: Spec, *, exact: bool
) -> Iterator[tuple[Table, Plan, float | None]]:
    """Yield each table with its plan and the estimated seconds (None if unknown).

    Tables that cannot be captured are not read. Their plans say why, and have no chunks.
    """
    settings, throttle = spec.snapshot, spec.throttle
    check_names(tables, settings)
    unfit = refused([table for table in tables if table.unfit])
    yield from ((t, not_captured(t.full_name, unfit[t.full_name]), None) for t in tables if t.full_name in unfit)
    tables = [table for table in tables if table.full_name not in unfit]
    plans = plan_tables(connection, tables, settings, exact=exact)
    speed = bytes_per_s(connection, tables, plans) if exact else None
    readers = settings.readers or os.cpu_count() or 1
    for table, plan in zip(tables, plans, strict=True):
        yield table, plan, seconds(plan, speed, readers, throttle)


def _measured(tables: Sequence[Table], spec: Spec, *, exact: bool) -> ChangeRates:
    """How often the tables change."""
    tables = [table for table in tables if not table.unfit]
    if not exact:
        return ChangeRates(unknown="the binlog was not read for an estimate")
    return recent_changes(endpoint_of(spec.source), spec.first_server_id(), tables)


def json_parts(connection: Connection, tables: Sequence[Table], spec: Spec, *, exact: bool) -> Iterator[str]:
    """`plan --json` (docs/command-line.md) in parts.

    exact: walk keys and list every chunk; otherwise `chunks` is null.
    """
    rates = _measured(tables, spec, exact=exact)
    yield '{"tables": ['
    for number, (table, plan, snapshot_s) in enumerate(_planned(connection, tables, spec, exact=exact)):
        estimated_s = None if snapshot_s is None else round(snapshot_s, 3)
        fields: dict[str, Any] = {**plan.summary(), "approx_bytes": plan.approx_bytes, "estimated_s": estimated_s}
        fields["mirror"] = mirror_of(spec.sink, table, plan)
        fields["merging"] = mirror_advice(spec.sink, table, plan, rates).as_dict()
        if spec.sink.is_bucket:
            cost = store_cost(spec, table, plan, rates)
            fields["requests_per_day"] = None if cost is None else {"puts": round(cost.puts), "gets": round(cost.gets)}
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


def text_table(connection: Connection, tables: Sequence[Table], spec: Spec, *, exact: bool) -> Group:
    """The plan as a text.

    One line per table and one of totals, the reason for each table's strategy, and the two ways of merging mirrors.
    """
    grid = Grid(box=None, pad_edge=False, show_footer=True)
    planned = list(_planned(connection, tables, spec, exact=exact))
    rows, size = (sum(getattr(plan, name) for _, plan, _ in planned) for name in ("approx_rows", "approx_bytes"))
    estimates = [snapshot_s for _, _, snapshot_s in planned if snapshot_s is not None]
    chunks = sum(plan.estimated_chunks for _, plan, _ in planned)
    columns = [
        ("table", plural(len(planned), "table"), "left"),
        ("rows about", f"{rows:,}", "right"),
        ("MB", f"{size / 1e6:,.1f}", "right"),
        ("key", "", "left"),
        ("factor", "", "right"),
        ("chunks", f"{chunks:,}", "right"),
        ("rows each", "", "right"),
        ("seconds", _seconds(sum(estimates) if estimates else None), "right"),
        ("mirror", "", "left"),
    ]
    for name, footer, side in columns:
        number = side == "right"
        grid.add_column(name, footer, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for table, plan, snapshot_s in planned:
        grid.add_row(
            plan.table,
            f"{plan.approx_rows:,}",
            f"{plan.approx_bytes / 1e6:,.1f}",
            ", ".join(plan.chunk_key),
            "" if plan.factor is None else f"{plan.factor:.3g}",
            f"{plan.estimated_chunks:,}",
            f"{plan.chunk_rows:,}",
            _seconds(snapshot_s),
            LABELS[mirror_of(spec.sink, table, plan)],
        )
    reasons = [f"{plan.table}: {plan.reason}" for _, plan, _ in planned]
    rates = _measured(tables, spec, exact=exact)
    if any(plan.factor is not None for _, plan, _ in planned):
        reasons.append(_FACTOR)
    pairs = [(table, plan) for table, plan, _ in planned]
    return Group(grid, "", *_lines(reasons), "", *_mirrors(spec, pairs, rates), *_store(spec, pairs, rates))


def _seconds(value: float | None) -> str:
    """A duration in seconds with one digit; empty if it is unknown."""
    if value is None:
        return ""
    return "< 0.1" if value < 0.05 else f"{value:,.1f}"


def _lines(texts: Iterable[str]) -> Iterator[Text]:
    return (Text(text, overflow="fold") for text in texts)


def _mirrors(spec: Spec, planned: Sequence[tuple[Table, Plan]], rates: ChangeRates) -> Iterator[RenderableType]:
    """What each way of merging would cost, per table.

    Also gives the reasons of the recommendations, and the readers that each way excludes.
    """
    if not spec.sink.has_mirrors:
        content = "the rows of each table" if spec.sink.database is not None else "the change log"
        yield from _lines([f'type = "{spec.sink.type}": the destination gets {content} alone, no mirrors.'])
        return
    if rates.unknown:
        yield from _lines([f"Changes a second are unknown: {rates.unknown}"])
    else:
        advice = [(table, plan, mirror_advice(spec.sink, table, plan, rates)) for table, plan in planned]
        grid = text_grid("table", "changes a second", "copy on write", "merge on read", "recommended")
        for table, _, one in advice:
            rate = "unknown" if one.rate is None else rate_text(one.rate)
            grid.add_row(table.full_name, rate, *(_cost(one, merging) for merging in EXCLUDED), LABELS[one.recommended])
        yield from (grid, "")
        yield from _lines([f"{counted_in(rates)} They are bytes written, and how old a mirror gets."])
        yield from _lines(f"{table.full_name}: unknown: {one.unknown}" for table, _, one in advice if one.unknown)
        yield from _lines(_reason(spec, table, plan, one) for table, plan, one in advice if one.recommended)
    readers = (f"{LABELS[merging]} excludes {' and '.join(out) or 'no reader'}" for merging, out in EXCLUDED.items())
    yield from _lines([f"Readers: {'; '.join(readers)}."])


def _store(spec: Spec, planned: Sequence[tuple[Table, Plan]], rates: ChangeRates) -> Iterator[RenderableType]:
    """What the changes of all tables would cost in a bucket."""
    if not spec.sink.is_bucket or rates.unknown:
        return
    costs = [store_cost(spec, table, plan, rates) for table, plan in planned]
    total = sum(filter(None, costs), StoreCost())
    size = sum(plan.approx_bytes for _, plan in planned)
    yield from _lines([f"Requests to the bucket: {month_text(total, size, spec.sink.prices)}."])


def store_cost(spec: Spec, table: Table, plan: Plan, rates: ChangeRates) -> StoreCost | None:
    """The requests a day of a table at its rate of changes; None if that is unknown."""
    rate = rates.rates.get(table.full_name)
    if rate is None:
        return None
    merging = mirror_of(spec.sink, table, plan)
    cost = merge_cost(merging, plan.approx_rows, plan.approx_bytes, rate, spec.sink) if merging else None
    return requests_per_day(merging, rate.changes_per_s, spec.poll_interval_s, cost)


def _reason(spec: Spec, table: Table, plan: Plan, one: MirrorAdvice) -> str:
    """The reason of a recommendation and, if the spec chooses otherwise, the setting that follows it."""
    text = f"{table.full_name}: {LABELS[one.recommended]}. {one.reason}"
    if one.recommended == mirror_of(spec.sink, table, plan):
        return text
    return f'{text} To follow it, set mirror = "{one.recommended}" in [sink.tables."{table.full_name}"].'


def _cost(one: MirrorAdvice, merging: Merging) -> str:
    cost = one.costs.get(merging)
    return NOTHING if cost is None else f"{per_day(cost)}, {age(cost)}"
