"""The health strip: the three layers, active alerts, and the footer with the last command."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from app.parts import messages
from app.view import words
from app.view.health import Layer

_ICONS = {
    "green": ":material/check_circle:",
    "orange": ":material/autorenew:",
    "red": ":material/error:",
    "violet": ":material/pause_circle:",
    "blue": ":material/hourglass_top:",
    "gray": ":material/remove_circle_outline:",
}


def draw(layers: Sequence[Layer]) -> None:
    """One card per layer, all of the same height."""
    for column, layer in zip(st.columns(len(layers), gap="small"), layers, strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown(f":gray[{words.escape(layer.title)}]", help=layer.help)
            st.markdown(f"#### :{layer.colour}[{_ICONS[layer.colour]} {words.escape(layer.headline)}]", anchors=False)
            first, *rest = layer.details or (words.NOTHING,)
            text = words.escape(first)
            st.markdown(f":gray[{text}]" if layer.colour == "gray" else f"**{text}**")
            st.markdown(f":small[:gray[{words.escape(' · '.join(rest)) or '&nbsp;'}]]")


def alerts(lines: Sequence[str]) -> None:
    """One line per active alert."""
    for line in lines:
        st.markdown(f":red[:material/notifications_active: {words.escape(line)}]")


def footer(now: datetime, run: str | None, commands: Sequence[tuple[str, str]]) -> None:
    """The time of the numbers and the state of the last command, always in one line, so that the page does not move."""
    left, right = st.columns(2, vertical_alignment="center")
    with left:
        messages.freshness(now, extra=f"run {run}" if run else "")
    if commands:
        colour, sentence = commands[-1]
        right.markdown(f":{colour}[:material/send: {words.escape(sentence)}]", text_alignment="right")
