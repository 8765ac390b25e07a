"""The sections of the live page. In each, the controls are outside of the autorefreshed part, and the numbers inside."""

from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from app.parts import columns, controls, home, meaning, messages, places, selection, timeline_section
from app.parts.autorefresh import INTERVAL_S, autorefresh
from app.parts.charts import plot
from app.view import binlog, chunk_counts, curves, event_feed, factor, reader_timeline, words, zone
from app.view.progress import current_reads, rows_per_s, share
from engine import clock, settings
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import chunk_queries, event_queries, runs, table_queries
from engine.sentences import remedy

SPANS = {"5 min": 300, "30 min": 1800, "3 h": 10_800, "24 h": 86_400, "7 d": 604_800}
_CHANGE = "A change is an entry of the change log. An update has two; redumped rows have their own."
_TABLE_COLUMNS = {
    "Table": st.column_config.TextColumn(width="medium", pinned=True),
    "Copied": st.column_config.ProgressColumn(
        format="%.1f%%", min_value=0, max_value=100, help="Chunks read, of the expected number"
    ),
    "Rows": columns.figure(
        "Rows read, also of chunks that are being read, and the source's estimate of the table's rows", 190
    ),
    "Chunks": columns.figure(meaning.of("chunk")),
    "Rows/s": columns.figure("Rows copied per second over the last 30 s"),
    "Changes": columns.figure(f"Committed since the pipeline was created. {_CHANGE}"),
    "Last change": columns.figure(
        "Since the newest change of the table was committed. *Table* says whether it is fresh", 100
    ),
    "Retrying": columns.figure("Chunks whose last attempt failed"),
    "Page": columns.page(),
}
_TABLE_FIGURES = ("Copied", "Rows", "Chunks", "Retrying", "Rows/s", "Changes", "Last change", "Chunking")
_EVENTS = 1000
_CHUNK = "chunk of the clicked window"


def overview(where: Directory) -> None:
    """Progress per table, lag and throughput."""
    name = where.root.name
    _tables(where)
    if home.ask(runs.latest_run, name) is None:
        return
    selection.default("span", "5 min")
    chosen = st.segmented_control("Time shown", list(SPANS), key="span", bind="query-params", required=True)
    timeline_section.live(where, SPANS[chosen or "5 min"])


@autorefresh()
def _tables(where: Directory) -> None:
    name, now = where.root.name, clock.utc_now()
    known = home.ask(table_queries.progress, name)
    found = [one for one in known if one.state != "removed"]
    if not found:
        messages.nothing("No table planned yet", "Tables appear here when the runner has planned their chunks.")
        return
    for one in found:
        if one.state == "stopped":
            first, _, rest = (one.reason or "The reason is in the journal of an earlier run.").partition("\n")
            messages.three_parts(
                f"{one.table} stopped: {first}",
                f"The other tables continue. {rest}",
                one.hint or remedy("table_stopped", one.table),
            )
    run = home.ask(runs.latest_run, name)
    live = run is not None and run.ended is None and run.state == "running" and curves.end(now, run.last_event) == now
    strategies = {plan.table: plan.strategy for plan in home.ask(table_queries.plans, name)}
    copying = [one.table for one in found if live and not one.copied]
    reads = home.ask(chunk_queries.reads, name, run.run if run else None, limit=600) if copying else []
    current = current_reads(home.reading_of(where), found, now) if copying else []
    rates = {table: rows_per_s([*reads, *current], now, table=table) for table in copying}
    partly = {read.table: read.rows for read in current}
    acts = any(chunk_counts.who(one, live=live) for one in found)
    rows = [
        _table_row(name, one, partly.get(one.table, 0), rates.get(one.table), strategies.get(one.table))
        | {"Who acts": chunk_counts.who(one, live=live), "Last change": words.ago(one.last_change_s, now)}
        for one in found
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
    if removed := [one.table for one in known if one.state == "removed"]:
        st.caption(words.escape(f"Removed from the pipeline: {', '.join(removed)}"))


def _table_row(
    name: str, one: table_queries.Progress, partly: int, rows_s: float | None, strategy: str | None
) -> dict[str, object]:
    """partly: rows of chunks that are being read."""
    rows = f"{words.count(one.rows + partly)} of about {words.count(one.approx_rows)}"
    done = share([one])
    return {
        "Table": one.table,
        "Page": places.table_address(name, one.table),
        "State": chunk_counts.state(one),
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
    chosen = st.segmented_control("Time shown", list(spans), key="readers-span", bind="query-params", required=True)
    _timeline(name, spans[chosen or "1 min"])


@autorefresh()
def _timeline(name: str, span_s: int | None) -> None:
    now = clock.utc_now()
    everything = home.ask(chunk_queries.reads, name, limit=4000)
    if not everything:
        messages.nothing("No chunk was read yet", "Readers appear here when they have read their first chunk.")
        return
    until = timeline_end(now, max(read.ended for read in everything))
    began = min(read.started for read in everything)
    since = began if span_s is None else max(began, until - timedelta(seconds=span_s))
    shown = [read for read in everything if read.ended > since]
    if until < now - timedelta(seconds=1):
        st.caption(f"No chunk was read after {words.date_time(until)}; the time before it is shown.")
    with zone.steady(until):
        figure = reader_timeline.figure(shown, since, until)
    plot(
        figure,
        "timeline",
        f"Chunks read by {len(reader_timeline.reader_totals(shown, since, until))} readers over time",
    )
    _timeline_tables(shown, since, until)


def _timeline_tables(shown: list[chunk_queries.Read], since: datetime, until: datetime) -> None:
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
            for one in reader_timeline.reader_totals(shown, since, until)
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
        spread = [{"": s.name} | dict(zip(heads, s.values, strict=True)) for s in reader_timeline.spreads(shown)]
        st.dataframe(
            pd.DataFrame(spread),
            hide_index=True,
            key="spreads",
            column_config=columns.figures(*heads),
            placeholder=words.NOTHING,
            alt="Quartiles of seconds, rows and gaps per chunk",
        )
        slow = len(reader_timeline.stragglers(shown))
        st.caption(f"{words.plural(slow, 'straggler')}: over three times the median" if slow else "No stragglers")


def timeline_end(now: datetime, last: datetime) -> datetime:
    """The end of the timeline: now while chunks arrive, else the end of the last chunk."""
    return now if (now - last).total_seconds() < 15 else last


def watermarks(name: str, names: list[str]) -> None:
    """The watermark windows of chunks over the binlog, widest first."""
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    with left:
        table = selection.named("Table", "windows-table", "all tables", names)
    selection.default("windows-shown", 20)
    most = right.segmented_control(
        "Windows shown",
        [20, 40, 80],
        key="windows-shown",
        bind="query-params",
        required=True,
        help=meaning.of("watermark", "backfill"),
    )
    if table is not None:
        places.link_to_table(name, table)
    _windows(name, table, most or 20)


@autorefresh(5 * INTERVAL_S)
def _windows(name: str, table: str | None, most: int) -> None:
    if chosen := st.session_state.pop(_CHUNK, None):
        selection.open_chunk(*chosen)
        st.rerun()
    found = chunk_queries.windows(home.fresh(), name, table=table, limit=most)
    if not found:
        messages.nothing("No watermark yet", "The window of a chunk is known when the chunk has been read.")
        return
    st.caption(
        "From the low to the high watermark of each chunk. Changes in between are merged into the chunk (backfill), so that it is "
        "exact at its high watermark. A window of width 0 is an exact snapshot."
    )
    st.markdown(words.escape(binlog.note(len(found), most, table)))
    # The number of clicks is a part of the figure's key, because an autorefresh may bring the same click again.
    of, click = f"windows {name}", controls.clicks(f"windows {name}")
    key = f"windows-{click}"

    def clicked() -> None:
        points = st.session_state[key]["selection"]["points"]
        if points and controls.first_time(of, click):
            st.session_state[_CHUNK] = binlog.chunk_of(points[0])

    plot(binlog.figure(found), key, f"Watermark windows, the widest {words.size(found[0].gap_bytes)}", clicked)


@autorefresh(5 * INTERVAL_S)
def plan(where: Directory) -> None:
    """How each table is split and why, and how many chunks are planned so far."""
    found = home.ask(table_queries.plans, where.root.name)
    if not found:
        messages.nothing("No plan yet", "The runner plans when it has connected.")
        return
    lower, upper = _bounds(where)
    st.markdown(
        "**Distribution factor** :gray[within the bounds, the key is split evenly]",
        help=meaning.of("distribution factor", "chunk key"),
    )
    if drawn := factor.drawn(found, lower, upper):
        plot(
            factor.figure(drawn, lower, upper),
            "factor",
            f"Distribution factor of each table against {lower:g} to {upper:g}",
        )
        if rest := sum(1 for one in found if one.distribution_factor) - len(drawn):
            st.caption(f"{words.plural(rest, 'smaller table')} not shown")
    st.dataframe(
        pd.DataFrame([_plan_row(where.root.name, one) for one in found]),
        hide_index=True,
        key="plans",
        row_height=columns.height(one.reason or "" for one in found),
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
    st.caption(f"planned {words.date_time(max(one.planned for one in found))}")


def _plan_row(name: str, one: table_queries.Plan) -> dict[str, object]:
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


def events(name: str) -> None:
    """The event feed, newest first, or as it was up to the event that the address names."""
    chosen = selection.event()
    until = None if chosen is None else _event(name, chosen)
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    selection.default("kinds", list(event_feed.USUAL))
    kinds = left.pills(
        "Kinds",
        list(event_feed.KINDS),
        selection_mode="multi",
        key="kinds",
        bind="query-params",
        wrap=True,
        help=meaning.of("chunk", "epoch", "redump", "resnapshot", "maintenance"),
    )
    text = right.text_input(
        "Contains",
        key="contains",
        bind="query-params",
        placeholder="A table, a chunk, part of a sentence",
        icon=":material/search:",
        help=f"Searches the newest {_EVENTS:,} events of the chosen kinds as they are shown, and the journal's data of all of them",
    )
    _events(name, tuple(kinds), text or "", until)


def _event(name: str, chosen: str) -> datetime | None:
    """One event, and the journal's line. Returns the end of the feed around it; None if there is no such event."""
    run, _, seq = chosen.rpartition(":")
    found = event_queries.one(home.fresh(), name, run, int(seq)) if seq.isdecimal() else None
    with st.container(border=True):
        left, right = st.columns([4, 1], vertical_alignment="center")
        right.button("Show all events", icon=":material/close:", on_click=selection.close_event, key="close-event")
        if found is None:
            left.markdown(f"**There is no event {words.escape(chosen)} here.** Its journal may have been deleted.")
        else:
            line = event_feed.line_of(found, _enders(name, found))
            table = f" · {words.escape(line.table)}" if line.table else ""
            when = f"{words.escape(words.date_time(line.ts))} · {line.kind}{table} · below are the events up to a minute later"
            left.markdown(f"**{words.escape(line.text)}**  \n:gray[{when}]")
            if line.advice:
                left.markdown(f"**What to do** {words.escape(line.advice)}")
            with st.expander("Journal line", icon=":material/data_object:"):
                st.json(found.body)
    return None if found is None else found.ts + timedelta(minutes=1)


def _enders(name: str, found: event_queries.Event) -> list[event_queries.Event]:
    """The later events that may have ended what an event is about."""
    names = event_feed.enders(found)
    return event_queries.events(home.fresh(), name, names, table=found.table, since=found.ts) if names else []


@st.cache_data(ttl=30, max_entries=100, show_spinner=False)
def _older(name: str, names: tuple[str, ...], text: str, until: datetime | None) -> list[event_queries.Event]:
    """The events whose data contain a text. Kept, because a scan of a long history is slow; the newest events are asked too."""
    return event_queries.events(home.fresh(), name, names, text=text, until=until, limit=_EVENTS)


@autorefresh()
def _events(name: str, kinds: tuple[str, ...], text: str, until: datetime | None) -> None:
    cursor = home.fresh()
    names = event_feed.names(kinds)
    lines = event_queries.events(cursor, name, names, until=until, limit=_EVENTS)
    older = _older(name, tuple(names), text, until) if text else []
    found = event_feed.search(lines, older, text)
    if not found:
        messages.nothing("Nothing matches", "Choose more kinds, or clear the text.", ":material/filter_alt_off:")
    else:
        rows = [
            {
                "Time": one.ts,
                "Kind": one.kind,
                "Who acts": one.who,
                "Table": one.table,
                "Page": places.table_address(name, one.table) if one.table else "",
                "Event": places.address("live", pipeline=name, section="Events", event=f"{one.run}:{one.seq}"),
                "What": one.text,
                "Took": words.duration(one.duration_s) if one.duration_s is not None else "",
            }
            for one in found[:500]
        ]
        took = any(row["Took"] for row in rows)
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="events",
            height=560 if len(rows) > 14 else "auto",
            column_order=[name for name in rows[0] if took or name != "Took"],
            column_config={
                **columns.time("Time", 145),
                "Kind": st.column_config.TextColumn(width=75),
                "Who acts": st.column_config.TextColumn(width=95),
                "Table": st.column_config.TextColumn(width=120),
                "Page": columns.page(),
                "Event": columns.event(),
                "Took": columns.figure(width=60),
                "What": st.column_config.TextColumn(width=520 if took else 580),
            },
            placeholder=words.NOTHING,
            alt="Events, newest first",
        )
    read = runs.journalled(cursor, name)
    note = f"{words.plural(read.lines, 'journal line')} read"
    if len(lines) == _EVENTS:
        what = "searched as they are shown, and of older ones their data" if text else "shown"
        note += f"; the newest {_EVENTS:,} of these kinds are {what}, so lines that began earlier are incomplete"
    if read.malformed:
        note += f", {words.plural(read.malformed, 'line')} could not be parsed, most recently: {read.malformed_text}"
    st.caption(words.escape(note))
