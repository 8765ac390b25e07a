"""The short sections of the live page, the overview with the list of tables among them.

In each, the controls are outside of the autorefreshed part, and the numbers inside.
"""

from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from app.common import access, columns, home, meaning, messages, places, selection, table_acts
from app.common.autorefresh import INTERVAL_S, autorefresh
from app.common.charts import plot
from app.common.table_acts import CommandVerb
from app.common.view import factor, words, zone
from app.common.view.hints import others_continue
from app.common.view.progress import current_reads, others_work, rows_per_s, share
from app.live import timeline_section
from app.live.view import chunk_counts, reader_timeline
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import chunk_queries, runs, table_queries
from engine.journal.alert_kinds import remedy
from engine.pipeline.directory import Directory
from engine.pipeline.state_words import TABLE_STATES
from engine.spec import settings

SPANS = {"5 min": 300, "30 min": 1800, "3 h": 10_800, "24 h": 86_400, "7 d": 604_800}
_CHANGE = "Changes are entries of the change log: an update counts as two, and redumped rows count as well."
_TABLE_COLUMNS = {
    "Table": st.column_config.TextColumn(width="medium", pinned=True),
    "Copied": st.column_config.ProgressColumn(
        format="%.1f%%", min_value=0, max_value=100, help="Chunks read, of the expected number"
    ),
    "Rows": columns.figure(
        "Rows read, chunks in progress included, and the source's estimate of the table's rows", 190
    ),
    "Chunks": columns.figure(meaning.of("chunk")),
    "Rows/s": columns.figure("Rows copied per second over the last 30 s"),
    "Changes": columns.figure(f"Committed since the pipeline was created. {_CHANGE}"),
    "Last change": columns.figure(
        "Since the newest change of the table was committed. *Table* says whether it is fresh", 100
    ),
    "State": columns.states(TABLE_STATES),
    "Retrying": columns.figure("Chunks whose last attempt failed"),
    "Page": columns.page(),
}
_TABLE_FIGURES = ("Copied", "Rows", "Chunks", "Retrying", "Rows/s", "Changes", "Last change", "Chunking")


def overview(where: Directory) -> None:
    """Progress per table, lag and throughput."""
    name = where.root.name
    acts = table_acts.of_tables(where)
    _troubles(where, acts)
    table_acts.buttons(where, acts, key="stop")
    _tables(where)
    if home.ask(runs.latest_run, name) is None:
        return
    selection.default("span", "5 min")
    span = st.segmented_control("Time shown", list(SPANS), key="span", bind="query-params", required=True)
    timeline_section.live(where, SPANS[span or "5 min"])


@autorefresh()
def _troubles(where: Directory, acts_on_page: dict[str, tuple[CommandVerb, ...]]) -> None:
    """Why tables stopped, and which mirrors cannot be read.

    If the tables with buttons have changed, the whole page runs again.
    """
    others = others_continue(
        works=home.runner(where).works and others_work(home.ask(table_queries.progress, where.root.name))
    )
    for one in table_acts.stopped(where):
        first, _, rest = (one.reason or "The reason is in the journal of an earlier run.").partition("\n")
        messages.three_parts(
            words.stop_sentence(one.table, first),
            f"{others} {rest}".strip(),
            one.hint or remedy("table_stopped", one.table),
            above_buttons=access.operator(),
        )
    table_acts.unreadable(where)
    if table_acts.of_tables(where) != acts_on_page:
        st.rerun()


@autorefresh()
def _tables(where: Directory) -> None:
    name, now = where.root.name, clock.utc_now()
    all_tables = home.ask(table_queries.progress, name)
    tables = chunk_counts.troubled_first(one for one in all_tables if one.state != "removed")
    if not tables:
        messages.nothing("No table planned yet", "Tables appear here when the runner has planned their chunks.")
        return
    run = home.ask(runs.latest_run, name)
    runner = home.runner(where)
    live = runner.works
    strategies = {plan.table: plan.strategy for plan in home.ask(table_queries.plans, name)}
    copying = [one.table for one in tables if live and one.being_copied]
    reads = home.ask(chunk_queries.reads, name, run.run if run else None, limit=600) if copying else []
    current = current_reads(home.reading_of(where), tables, now) if copying else []
    rates = {table: rows_per_s([*reads, *current], now, table=table) for table in copying}
    partly = {read.table: read.rows for read in current}
    acts = any(chunk_counts.who(one, live=live) for one in tables)
    rows = [
        _table_row(name, one, partly.get(one.table, 0), rates.get(one.table), strategies.get(one.table))
        | {"State": chunk_counts.state(one, runner.shown_state)}
        | {"Who acts": chunk_counts.who(one, live=live), "Last change": words.ago(one.last_change_s, now)}
        for one in tables
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="tables",
        column_order=[*("Table", "Page", "State"), *(("Who acts",) if acts else ()), *_TABLE_FIGURES],
        column_config=_TABLE_COLUMNS,
        placeholder=words.NOTHING,
        alt="Progress per table",
    )
    if removed_tables := [one.table for one in all_tables if one.state == "removed"]:
        st.caption(words.escape(f"Removed from the pipeline: {', '.join(removed_tables)}"))


def _table_row(
    name: str, one: table_queries.TableProgress, partly: int, rows_s: float | None, strategy: str | None
) -> dict[str, object]:
    """partly: rows of chunks that are being read."""
    rows = f"{words.count(one.rows + partly)} of about {words.count(one.approx_rows)}"
    done = share([one])
    return {
        "Table": one.table,
        "Page": places.table_address(name, one.table),
        "Copied": None if done is None else 100 * done,
        "Rows": rows if one.planned else words.NOTHING,
        "Chunks": chunk_counts.chunks_read(one),
        "Retrying": f"{one.failed:,}" if one.failed else "",
        "Rows/s": words.count(rows_s),
        "Changes": words.count(one.changes),
        "Chunking": strategy or words.NOTHING,
    }


def readers(name: str) -> None:
    """The reader timeline, and the cost of a chunk."""
    spans = {"1 min": 60, "5 min": 300, "30 min": 1800, "all": None}
    selection.default("readers-span", "1 min")
    span = st.segmented_control("Time shown", list(spans), key="readers-span", bind="query-params", required=True)
    _timeline(name, spans[span or "1 min"])


@autorefresh()
def _timeline(name: str, span_s: int | None) -> None:
    now = clock.utc_now()
    all_reads = home.ask(chunk_queries.reads, name, limit=4000)
    if not all_reads:
        messages.nothing("No chunk was read yet", "Readers appear here when they have read their first chunk.")
        return
    until = timeline_end(now, max(read.ended for read in all_reads))
    began = min(read.started for read in all_reads)
    since = began if span_s is None else max(began, until - timedelta(seconds=span_s))
    reads = [read for read in all_reads if read.ended > since]
    if until < now - timedelta(seconds=1):
        st.caption(f"No chunk was read after {words.date_time(until)}; the time before it is shown.")
    with zone.steady(until):
        figure = reader_timeline.figure(reads, since, until)
    plot(
        figure,
        "timeline",
        f"Chunks read by {len(reader_timeline.reader_totals(reads, since, until))} readers over time",
    )
    _timeline_tables(reads, since, until)


def _timeline_tables(reads: list[chunk_queries.Read], since: datetime, until: datetime) -> None:
    """How busy each reader was, and the distribution of a chunk's cost."""
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.markdown("**Readers** :gray[in the time shown]", help=meaning.of("reader", "slot"))
        rows = [
            {
                "Reader": one.reader,
                "Busy": 100 * one.busy,
                "Chunks": one.chunks,
                "Rows": words.count(one.rows),
            }
            for one in reader_timeline.reader_totals(reads, since, until)
        ]
        busy = st.column_config.ProgressColumn(
            format="%.0f%%", min_value=0, max_value=100, help="Share of the time in which it had a chunk"
        )
        configs = {"Busy": busy, **columns.figures("Rows")}
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="readers",
            column_config=configs,
            placeholder=words.NOTHING,
            alt="Readers",
        )
    with right:
        st.markdown("**Cost of a chunk** :gray[in the time shown]", help=meaning.of("chunk", "watermark", "backfill"))
        heads = ("min", "25 %", "median", "75 %", "max")
        spread = [{"": s.name} | dict(zip(heads, s.values, strict=True)) for s in reader_timeline.spreads(reads)]
        st.dataframe(
            pd.DataFrame(spread),
            hide_index=True,
            key="spreads",
            column_config=columns.figures(*heads),
            placeholder=words.NOTHING,
            alt="Quartiles of seconds, rows and gaps per chunk",
        )
        slow = len(reader_timeline.stragglers(reads))
        st.caption(f"{words.plural(slow, 'straggler')}: over three times the median" if slow else "No stragglers")


def timeline_end(now: datetime, last: datetime) -> datetime:
    """The end of the timeline: now while chunks arrive, else the end of the last chunk."""
    return now if (now - last).total_seconds() < 15 else last


@autorefresh(5 * INTERVAL_S)
def plan(where: Directory) -> None:
    """How each table is split and why, and how many chunks are planned so far."""
    plans = home.ask(table_queries.plans, where.root.name)
    if not plans:
        messages.nothing("No plan yet", "The runner plans when it has connected.")
        return
    lower, upper = _bounds(where)
    st.markdown(
        "**Distribution factor** :gray[within the bounds, the key is split evenly]",
        help=meaning.of("distribution factor", "chunk key"),
    )
    if figure_plans := factor.figure_plans(plans, lower, upper):
        st.html(factor.figure(figure_plans, lower, upper))
        if rest := sum(1 for one in plans if one.distribution_factor) - len(figure_plans):
            st.caption(f"{words.plural(rest, 'smaller table')} not shown")
    st.dataframe(
        pd.DataFrame([_plan_row(where.root.name, one) for one in plans]),
        hide_index=True,
        key="plans",
        row_height=columns.height(one.reason or "" for one in plans),
        placeholder=words.NOTHING,
        alt="Plan per table",
        column_config={
            "Strategy": st.column_config.TextColumn(
                help="even: equal steps of the key; uneven: bounds found by walking the key; one: a single chunk"
            ),
            "Why": columns.sentences(),
            "Page": columns.page(),
            "Rows a chunk": columns.figure("By plan; the actual numbers are in the chunk details"),
            "Factor": columns.figure(meaning.of("distribution factor")),
            "Chunks": columns.figure(meaning.of("chunk")),
            **columns.figures("Rows", "Smallest", "Largest"),
        },
    )
    st.caption(f"planned {words.date_time(max(one.planned for one in plans))}")


def _plan_row(name: str, one: table_queries.NewestPlan) -> dict[str, object]:
    return {
        "Table": one.table,
        "Page": places.table_address(name, one.table),
        "Strategy": one.strategy or words.NOTHING,
        "Why": one.reason or words.NOTHING,
        "Chunks": chunk_counts.planned_chunks(one),
        "Rows a chunk": words.count(one.chunk_rows),
        "Rows": words.count(one.approx_rows),
        "Key": one.chunk_key or words.NOTHING,
        "Smallest": one.min or words.NOTHING,
        "Largest": one.max or words.NOTHING,
        "Factor": words.NOTHING if one.distribution_factor is None else f"{one.distribution_factor:.4g}",
    }


def _bounds(where: Directory) -> tuple[float, float]:
    try:
        snapshot = settings.load(where.spec).snapshot
    except TidemarkError:
        return 0.05, 1000.0
    return snapshot.even_factor_lower, snapshot.even_factor_upper
