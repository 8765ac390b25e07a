"""The list of pipelines, with autorefresh: a card for each, or a row if they are many."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from app.common import columns, controls, data_light, home, messages, places, selection, table_acts
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.common.view.health import layers
from app.common.view.progress import copying, current_reads, others_work
from app.common.view.status_style import PIPELINE
from app.pipelines import bulk
from app.pipelines.view import sparkline
from app.pipelines.view.pipeline_cards import (
    CHANGES_S,
    Card,
    by_source,
    card_of,
    matches,
    order,
    outages,
    stopped_tables,
)
from engine.base import clock
from engine.history import chunk_queries, series, table_queries
from engine.pipeline.directory import Directory

_FEW = 4
"""Fewer pipelines need no filter."""
_CARDS = 12
"""More pipelines are a table: each card costs ten milliseconds of server time a second."""
_LAG_SHOWN, _LAG_WIDTH_MS = timedelta(minutes=30), 30_000
_COLUMN_ORDER = (
    "Pipeline",
    "State",
    "Lag",
    "Lag, 30 min",
    "Problem",
    "Who acts",
    "Copied",
    "Reading",
    "Changes",
    "Retention left",
    "Heartbeat",
    "Source",
)


def show() -> None:
    """All pipelines, or those that match a filter, which is in the URL."""
    names = [where.root.name for where in home.directories()]
    if len(names) < _FEW:
        fleet("", (), grouped=False)
        return
    left, last = st.columns([2, 1], vertical_alignment="bottom")
    text = left.text_input(
        "Find", key="find", bind="query-params", placeholder="Name, source, state or tag", icon=":material/search:"
    )
    labels = list(dict.fromkeys(style.label for style in PIPELINE.values()))
    states = st.pills("States", labels, selection_mode="multi", key="states", bind="query-params", wrap=True)
    selection.default("grouped", False)
    grouped = last.toggle("Group by source", key="grouped", bind="query-params")
    bulk.draw(names)
    fleet(text or "", tuple(states), grouped=grouped)


@autorefresh(1.0)
def fleet(text: str, states: tuple[str, ...], *, grouped: bool) -> None:
    """The pipelines that match, those that need attention first, below the problems of all."""
    now = clock.utc_now()
    all_cards = sorted(_cards(now), key=lambda pair: order(pair[1]))
    failing = sum(one.problem for _, one in all_cards)
    matching_cards = [(where, one) for where, one in all_cards if matches(one, text, states)]
    count = f"{len(matching_cards)} of {words.plural(len(all_cards), 'pipeline')} shown"
    notes = [count] if len(matching_cards) < len(all_cards) else []
    notes += [f"{words.plural(failing, 'pipeline')} with problems"] if failing else []
    messages.freshness(now, extra=" · ".join(notes))
    for sentence in outages(one for _, one in all_cards):
        st.markdown(f":orange[:material/cloud_off: {words.escape(sentence)}]")
    if not matching_cards:
        messages.nothing("Nothing matches", "Clear the text, or choose other states.", ":material/filter_alt_off:")
        return
    lines, places_of = _Sparklines(now), {one.name: where for where, one in matching_cards}
    groups = by_source(one for _, one in matching_cards) if grouped else {"": [one for _, one in matching_cards]}
    for number, (source, cards) in enumerate(groups.items()):
        if source:
            st.markdown(f"**{words.escape(source)}** :gray[{words.plural(len(cards), 'pipeline')}]")
        if len(matching_cards) > _CARDS:
            _table(cards, lines, number)
            continue
        for one in cards:
            _card(places_of[one.name], one, lines)


class _Sparklines:
    """The recent lag of all pipelines, read with one query."""

    def __init__(self, now: datetime) -> None:
        self._since = now - _LAG_SHOWN
        self._until = now
        self._points = series.worst_lags(home.fresh(), self._since, _LAG_WIDTH_MS)

    def picture(self, name: str) -> str:
        """The address of the picture."""
        return sparkline.picture(self._points.get(name, []), self._since, self._until, _LAG_WIDTH_MS)

    def sentence(self, name: str) -> str:
        """The picture in words."""
        return sparkline.sentence(self._points.get(name, []), words.duration(_LAG_SHOWN.total_seconds()))


def _cards(now: datetime) -> list[tuple[Directory, Card]]:
    cursor, since = home.fresh(), now - timedelta(seconds=CHANGES_S)
    lags, epochs = series.lags(cursor, since, 2000), series.epochs(cursor, since, 2000)
    newest = series.newest_lags(cursor, since)
    cards = []
    for where in home.directories():
        name = where.root.name
        lag = newest[name] if name in newest else home.ask(series.latest_lag, name)
        cards.append((where, _card_of(where, now, lag, lags.get(name, []), epochs.get(name, []))))
    return cards


def _card_of(
    where: Directory,
    now: datetime,
    lag: series.Lag | None,
    recent: Sequence[series.Lag],
    epochs: Sequence[series.Epoch],
) -> Card:
    name, runner = where.root.name, home.glance(where)
    tables = home.ask(table_queries.progress, name)
    reads: list[chunk_queries.Read] = []
    if copying(tables, live=runner.works):
        reads = [*home.ask(chunk_queries.reads, name, limit=200), *current_reads(home.reading_of(where), tables, now)]
    stopped_names, lacks = stopped_tables(tables), home.lacking_settings(where)
    lights = layers(runner, lag, recent, now, stopped_names, lacks, others=others_work(tables))
    origin, differing, alerts = home.origin_of(where), data_light.differences(where), home.firing(where, runner)
    return card_of(name, runner, lights, lag, tables, reads, epochs, now, origin.source, origin.tags, differing, alerts)


_WIDTHS = [2.1, 0.9, 1.2, 1.25, 1.3, 1.1, 1.25, 2.5]


def _card(where: Directory, one: Card, lines: _Sparklines) -> None:
    style = one.style
    with st.container(border=True, key=f"card-{one.name}", gap="xsmall"):
        name, *facts, buttons = st.columns(_WIDTHS)
        with name, st.container(gap=None):
            st.page_link(places.LIVE, label=f"**{words.escape(one.name)}**", query_params={"pipeline": one.name})
            phase = f" :small[:gray[{words.escape(one.phase)}]]" if one.phase else ""
            tags = "".join(f" :gray-badge[{words.escape(tag)}]" for tag in one.tags)
            st.markdown(f"&nbsp;:{style.colour}-badge[{style.icon} {style.label}]{phase}{tags}")
        for column, fact in zip(facts, one.facts, strict=True):
            value = f"**{words.escape(fact.value)}**"
            figure = f":{fact.colour}[{value}]" if fact.colour else value
            picture = lines.picture(one.name) if fact.label == "Lag" else ""
            curve = f"  \n![{lines.sentence(one.name)}]({picture})" if picture else ""
            column.markdown(f":small[:gray[{fact.label}]]  \n{figure}{curve}")
        with buttons:
            controls.controls(where, one.runner, key=f"card-{one.name}")
        controls.refusal(one.name)
        acts = f" :small[:gray[Who acts: {one.who}]]" if one.who else ""
        for number, (colour, line) in enumerate(one.lines):
            st.markdown(f":{colour}[:material/error:] {words.escape(line)}{'' if number else acts}")
        if one.runner.away is not None and one.runner.away.attempt:
            controls.try_now(where, f"card-{one.name}-try")
        if one.runner.to_resnapshot:
            controls.resnapshot_tables(where, one.runner.to_resnapshot, f"card-{one.name}-resnapshot")
        elif one.runner.needs_resnapshot:
            controls.resnapshot_all(where, f"card-{one.name}-resnapshot-all")
        if one.lines:
            table_acts.buttons(where, table_acts.of_tables(where), key=f"card-{one.name}-table")


def _table(cards: Sequence[Card], lines: _Sparklines, number: int) -> None:
    """Many pipelines: a row for each."""
    rows = [
        {
            "Pipeline": places.address("live", pipeline=one.name),
            "State": [one.style.label],
            **{fact.label: fact.value for fact in one.facts},
            "Lag, 30 min": lines.picture(one.name) or None,
            "Problem": " · ".join(line for _, line in one.lines),
            "Who acts": one.who,
            "Source": one.source,
        }
        for one in cards
    ]
    labels = {style.label: style.colour for style in PIPELINE.values()}
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=f"fleet-{number}",
        height="content",
        column_order=[
            name for name in _COLUMN_ORDER if name not in ("Problem", "Who acts") or any(one.lines for one in cards)
        ],
        column_config={
            "Pipeline": st.column_config.LinkColumn(
                help="Opens the pipeline", display_text=r"pipeline=([^&]*)", pinned=True, width=140
            ),
            "State": st.column_config.MultiselectColumn(options=list(labels), color=list(labels.values()), width=130),
            "Lag, 30 min": st.column_config.ImageColumn(
                help="The largest lag of each half minute. Dashed: below it, the pipeline keeps up", width=130
            ),
            "Problem": st.column_config.TextColumn(width=260),
            "Who acts": st.column_config.TextColumn(width=95),
            **columns.fitted(rows, "Copied", "Reading", "Changes", "Lag", "Retention left", "Heartbeat"),
        },
        placeholder=words.NOTHING,
        alt="Pipelines, those that need attention first",
    )
