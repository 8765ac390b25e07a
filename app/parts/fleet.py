"""The list of pipelines, one card each, with autorefresh."""

from collections.abc import Sequence
from datetime import timedelta

import streamlit as st

from app.parts import controls, home, messages, places
from app.parts.autorefresh import autorefresh
from app.view import words
from app.view.health import layers
from app.view.pipeline_cards import CHANGES_S, Card, card_of, matches, order, outages, stopped_tables
from app.view.progress import current_reads
from app.view.status_style import PIPELINE
from engine import clock
from engine.directory import Directory
from engine.history import chunk_queries, series, table_queries

_FEW = 4
"""Fewer pipelines need no filter."""


def show() -> None:
    """All pipelines, or those that match a filter, which is in the URL."""
    if len(home.directories()) < _FEW:
        fleet("", ())
        return
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    text = left.text_input(
        "Find", key="find", bind="query-params", placeholder="Name, source or state", icon=":material/search:"
    )
    labels = list(dict.fromkeys(style.label for style in PIPELINE.values()))
    states = right.pills("States", labels, selection_mode="multi", key="states", bind="query-params")
    fleet(text or "", tuple(states))


@autorefresh(1.0)
def fleet(text: str, states: tuple[str, ...]) -> None:
    """The pipelines that match, those that need attention first, below the problems of all."""
    cursor, now = home.fresh(), clock.utc_now()
    since = now - timedelta(seconds=CHANGES_S)
    lags, epochs = series.lags(cursor, since, 2000), series.epochs(cursor, since, 2000)
    latest = series.latest_lags(cursor, since)
    found = [
        (where, _card_of(where, latest.get(name), lags.get(name, []), epochs.get(name, [])))
        for where in home.directories()
        for name in (where.root.name,)
    ]
    found.sort(key=lambda pair: order(pair[1]))
    failing = sum(one.runner.problem for _, one in found)
    shown = [(where, one) for where, one in found if matches(one, text, states)]
    notes = [f"{len(shown)} of {words.plural(len(found), 'pipeline')} shown"] if len(shown) < len(found) else []
    notes += [f"{words.plural(failing, 'pipeline')} with problems"] if failing else []
    messages.freshness(now, extra=" · ".join(notes))
    for sentence in outages(one for _, one in found):
        st.markdown(f":orange[:material/cloud_off: {words.escape(sentence)}]")
    if not shown:
        messages.nothing("Nothing matches", "Clear the text, or choose other states.", ":material/filter_alt_off:")
    for where, one in shown:
        _card(where, one)


def _card_of(
    where: Directory, lag: series.Lag | None, recent: Sequence[series.Lag], epochs: Sequence[series.Epoch]
) -> Card:
    """lag: the latest reading, if it is recent."""
    name, now = where.root.name, clock.utc_now()
    runner, lag = home.glance(where), lag or home.ask(series.latest_lag, name)
    tables = home.ask(table_queries.progress, name)
    reads = [*home.ask(chunk_queries.reads, name, limit=200), *current_reads(home.reading_of(where), tables, now)]
    shown = layers(runner, lag, recent, now, stopped_tables(tables))
    return card_of(name, runner, shown, lag, tables, reads, epochs, now, home.source_of(where))


_WIDTHS = [2.1, 0.9, 1.2, 1.25, 1, 1.1, 1.25, 2.5]


def _card(where: Directory, one: Card) -> None:
    style = one.style
    with st.container(border=True, key=f"card-{one.name}", gap="xsmall"):
        name, *facts, buttons = st.columns(_WIDTHS, vertical_alignment="center")
        with name, st.container(gap=None):
            st.page_link(places.LIVE, label=f"**{words.escape(one.name)}**", query_params={"pipeline": one.name})
            phase = f" :small[:gray[{words.escape(one.phase)}]]" if one.phase else ""
            st.markdown(f"&nbsp;:{style.colour}-badge[{style.icon} {style.label}]{phase}")
        for column, fact in zip(facts, one.facts, strict=True):
            value = f"**{words.escape(fact.value)}**"
            shown = f":{fact.colour}[{value}]" if fact.colour else value
            column.markdown(f":small[:gray[{fact.label}]]  \n{shown}")
        with buttons:
            controls.controls(where, one.runner, key=f"card-{one.name}")
        controls.refusal(one.name)
        if one.trouble:
            st.markdown(f":{one.trouble_colour}[:material/error:] {words.escape(one.trouble)}")
