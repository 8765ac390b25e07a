"""The event feed of a pipeline, newest first, and the event that the address names."""

from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from app.common import columns, home, meaning, messages, places, selection
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.live.view import event_feed
from engine.history import event_queries, runs

_EVENTS = 1000


def show(name: str, tables: list[str]) -> None:
    """The event feed, newest first, or as it was up to the event that the address names.

    tables: those that the feed can be limited to.
    """
    event = selection.event()
    until = None if event is None else _event(name, event)
    left, middle, right = st.columns([4, 1, 2], vertical_alignment="bottom")
    selection.default("kinds", list(event_feed.USUAL))
    kinds = left.pills(
        "Kinds",
        list(event_feed.KINDS),
        selection_mode="multi",
        key="kinds",
        bind="query-params",
        wrap=True,
        help=meaning.of("chunk", "epoch", "redump", "ghost", "resnapshot", "maintenance"),
    )
    with middle:
        table = selection.named("Table", "events-table", "all tables", tables)
    text = right.text_input(
        "Contains",
        key="contains",
        bind="query-params",
        placeholder="A chunk, part of a sentence",
        icon=":material/search:",
        help=f"Searches the newest {_EVENTS:,} events of the chosen kinds as they are shown, "
        "and the journal's data of all of them",
    )
    _events(name, tuple(kinds), table, text or "", until)


def _event(name: str, event: str) -> datetime | None:
    """One event, and the journal's line. Returns the end of the feed around it; None if there is no such event."""
    run, _, seq = event.rpartition(":")
    journal_line = event_queries.one(home.fresh(), name, run, int(seq)) if seq.isdecimal() else None
    with st.container(border=True):
        left, right = st.columns([4, 1], vertical_alignment="center")
        right.button("Show all events", icon=":material/close:", on_click=selection.close_event, key="close-event")
        if journal_line is None:
            left.markdown(f"**There is no event {words.escape(event)} here.** Its journal may have been deleted.")
        else:
            line = event_feed.line_of(journal_line, _others(name, journal_line))
            table = f" · {words.escape(line.table)}" if line.table else ""
            when = (
                f"{words.escape(words.date_time(line.ts))} · {line.kind}{table} · below are the events up to a minute "
                "later"
            )
            left.markdown(f"**{words.escape(line.text)}**  \n:gray[{when}]")
            if line.advice:
                left.markdown(f"**What to do** {words.escape(line.advice)}")
            with st.expander("Journal line", icon=":material/data_object:"):
                st.json(journal_line.body)
    return None if journal_line is None else journal_line.ts + timedelta(minutes=1)


def _others(name: str, line: event_queries.JournalLine) -> list[event_queries.JournalLine]:
    """Later events that may end what this one is about, or those of the same command."""
    cursor = home.fresh()
    if command := event_feed.command_of(line):
        return event_queries.events(cursor, name, event_feed.KINDS["Commands"], text=command)
    names = event_feed.enders(line)
    return event_queries.events(cursor, name, names, table=line.table, since=line.ts) if names else []


@st.cache_data(ttl=30, max_entries=100, show_spinner=False)
def _older(
    name: str, names: tuple[str, ...], table: str | None, text: str, until: datetime | None
) -> list[event_queries.JournalLine]:
    """The events whose data contain a text.

    Cached, because a scan of a long history is slow; the page also searches the newest events.
    """
    return event_queries.events(home.fresh(), name, names, text=text, table=table, until=until, limit=_EVENTS)


@autorefresh()
def _events(name: str, kinds: tuple[str, ...], table: str | None, text: str, until: datetime | None) -> None:
    cursor = home.fresh()
    names = event_feed.names(kinds)
    lines = event_queries.events(cursor, name, names, table=table, until=until, limit=_EVENTS)
    older = _older(name, tuple(names), table, text, until) if text else []
    feed = event_feed.search(lines, older, text)
    if not feed:
        messages.nothing(
            "Nothing matches", "Choose more kinds or all tables, or clear the text.", ":material/filter_alt_off:"
        )
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
            for one in feed[:500]
        ]
        took = any(row["Took"] for row in rows)
        at_source = any(len(one.who) > len("runner retries") for one in feed[:500])
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="events",
            height=560 if len(rows) > 14 else "auto",
            column_order=[name for name in rows[0] if took or name != "Took"],
            column_config={
                **columns.time("Time", 145),
                "Kind": st.column_config.TextColumn(width=75),
                "Who acts": st.column_config.TextColumn(width=140 if at_source else 95),
                "Table": st.column_config.TextColumn(width=120),
                "Page": columns.page(),
                "Event": columns.event(),
                "Took": columns.figure(width=60),
                "What": st.column_config.TextColumn(
                    width=(520 if took else 580) - (45 if at_source else 0), help=meaning.of("ghost")
                ),
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
