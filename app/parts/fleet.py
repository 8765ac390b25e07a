"""The list of pipelines: one card each, refreshed while it is looked at."""

from datetime import timedelta

import streamlit as st

from app.parts import access, controls, home, messages, places
from app.parts.autorefresh import refreshing
from app.view import words
from app.view.health import layers
from app.view.pipeline_cards import CHANGES_S, Summary, order, summary
from engine import clock
from engine.directory import Directory
from engine.history import chunks, series, tables
from engine.history.fetch import Cursor

_STEPS = (
    (":material/database:", "Point", "Name a MySQL or MariaDB server and the tables to follow."),
    (":material/fact_check:", "Check", "The spec is checked before anything is started."),
    (
        ":material/rocket_launch:",
        "Launch",
        "One runner reads the tables in chunks, without a lock and without a write.",
    ),
    (":material/monitor_heart:", "Watch", "See each chunk arrive and the mirror keep up with the source."),
)


@refreshing()
def fleet() -> None:
    """Every pipeline; those that need someone first."""
    cursor, now = home.fresh(), clock.utc_now()
    found = [(where, _summary(where, cursor)) for where in home.directories()]
    found.sort(key=lambda pair: order(pair[1]))
    wanting = sum(one.runner.look.colour == "red" for _, one in found)
    messages.freshness(now, extra=f"{words.plural(wanting, 'pipeline')} in trouble" if wanting else "")
    for where, one in found:
        _card(where, one)


def _summary(where: Directory, cursor: Cursor) -> Summary:
    name, now = where.root.name, clock.utc_now()
    runner, lag = home.runner(where), home.ask(series.latest_lag, name)
    since = now - timedelta(seconds=CHANGES_S)
    recent, epochs = series.lag_series(cursor, name, since, 2000), series.epoch_series(cursor, name, since, 2000)
    reads = home.ask(chunks.reads, name, limit=200)
    return summary(
        name, runner, layers(runner, lag, recent, now), lag, home.ask(tables.progress, name), reads, epochs, now
    )


_WIDTHS = [2.3, 0.9, 1.2, 1.25, 1, 0.9, 1.25, 2.5]


def _card(where: Directory, one: Summary) -> None:
    look = one.runner.look
    with st.container(border=True, key=f"card-{one.name}", gap="xsmall"):
        name, *facts, buttons = st.columns(_WIDTHS, vertical_alignment="center")
        with name, st.container(gap=None):
            st.page_link(places.LIVE, label=f"**{words.escape(one.name)}**", query_params={"pipeline": one.name})
            phase = f" :small[:gray[{words.escape(one.phase)}]]" if one.phase else ""
            st.markdown(f"&nbsp;:{look.colour}-badge[{look.icon} {look.label}]{phase}")
        for column, fact in zip(facts, one.facts, strict=True):
            value = f"**{words.escape(fact.value)}**"
            shown = f":{fact.colour}[{value}]" if fact.colour else value
            column.markdown(f":small[:gray[{fact.label}]]  \n{shown}")
        with buttons:
            controls.controls(where, one.runner, key=f"card-{one.name}")
        controls.refusal(one.name)
        if one.trouble:
            st.markdown(f":red[:material/error:] {words.escape(one.trouble)}")


def none_yet() -> None:
    """Four steps and one button."""
    with st.container(border=True, horizontal_alignment="center"):
        st.space("small")
        st.markdown("### No pipelines yet", text_alignment="center", anchors=False)
        st.markdown(
            ":gray[A pipeline copies tables into a lakehouse and keeps them equal, while the source is being written to.]",
            text_alignment="center",
        )
        st.space("small")
        for n, (column, (icon, title, text)) in enumerate(zip(st.columns(4), _STEPS, strict=True), 1):
            with column:
                st.markdown(f"**{icon} {n}. {title}**  \n:gray[{text}]")
        st.space("small")
        if access.operator() and st.button(
            "Create the first pipeline", type="primary", icon=":material/add:", key="first"
        ):
            st.switch_page(places.NEW, query_params={})
        st.space("small")
    st.caption(
        f"Pipelines live in {words.escape(str(home.home()))}; every folder there with a pipeline.toml is listed here."
    )
