"""The further sinks, above the tables of the first destination."""

import streamlit as st

from app.common import access, controls, home
from app.common.view import words
from app.live.view import sinks
from app.live.view.sinks import SinkAct, SinkCard
from engine.base import clock
from engine.pipeline.directory import Directory

_ICONS: dict[SinkAct, str] = {
    "Pause": ":material/pause:",
    "Resume": ":material/play_arrow:",
    "Try again": ":material/refresh:",
}
_WIDTHS = [1.9, 1.0, 0.6, 1.3, 1.2, 1.6]
"""Of the facts of a card, and of its buttons."""


def section(where: Directory) -> None:
    """A card per further sink; nothing without any."""
    record = home.record_of(where)
    if record is None or not record.sinks:
        return
    st.markdown("**Further sinks**")
    for one in sinks.cards(record.sinks, clock.utc_now()):
        _card(where, one)
    if any(one.state == "stopped" for one in record.sinks):
        st.error(
            "A stopped sink gets nothing any more. To begin it again: remove it from the spec and start the pipeline; "
            "then stop it, add the sink to the spec again and start the pipeline.",
            icon=":material/error:",
        )


def _card(where: Directory, one: SinkCard) -> None:
    with st.container(border=True, key=f"sink-{one.name}", gap="xsmall"):
        st.markdown(
            f"**{words.escape(one.name)}** &nbsp;:{one.colour}[{one.icon} {one.headline}] "
            f":small[:gray[{words.escape(one.where)}]]"
        )
        *facts, buttons = st.columns(_WIDTHS, vertical_alignment="center")
        for column, (label, value) in zip(facts, one.facts, strict=True):
            column.markdown(f":small[:gray[{label}]]  \n**{words.escape(value)}**")
        if access.operator():
            with buttons, st.container(horizontal=True, horizontal_alignment="right"):
                for act in one.acts:
                    _button(where, one.name, act)
        if one.why:
            st.markdown(f":{one.colour}[{words.escape(one.why)}]")


def _button(where: Directory, sink: str, act: SinkAct) -> None:
    click = controls.clicks(where.root.name)
    st.button(act, icon=_ICONS[act], key=f"sink-{sink}-{act}-{click}", on_click=_send, args=(where, click, sink, act))


def _send(where: Directory, click: int, sink: str, act: SinkAct) -> None:
    if controls.first_time(where.root.name, click):
        controls.post(where, "pause" if act == "Pause" else "resume", "", {"sinks": [sink]})
