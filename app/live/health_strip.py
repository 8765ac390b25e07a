"""The health strip: the three layers, active alerts, and the footer with the last command."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from app.common import messages
from app.common.view import words
from app.common.view.health import Layer

_ICONS = {
    "green": ":material/check_circle:",
    "orange": ":material/autorenew:",
    "red": ":material/error:",
    "violet": ":material/pause_circle:",
    "blue": ":material/hourglass_top:",
    "gray": ":material/remove_circle_outline:",
}


def draw(layers: Sequence[Layer]) -> None:
    """One card of two lines per layer, all of the same height, so that the sections below stay on the screen."""
    for column, layer in zip(st.columns(len(layers), gap="small"), layers, strict=True):
        with column, st.container(border=True, height="stretch", gap=None):
            headline = f":{layer.colour}[{_ICONS[layer.colour]} {words.escape(layer.headline)}]"
            st.markdown(
                f"#### :small[:gray[{words.escape(layer.title)}]]&nbsp; {headline}", help=layer.help, anchors=False
            )
            first, *rest = map(words.escape, layer.details or (words.NOTHING,))
            fact = f":gray[{first}]" if layer.colour == "gray" else f"**{first}**"
            st.markdown(f"{fact} :small[:gray[{' · '.join(['', *rest])}]]" if rest else fact)


def alerts(lines: Sequence[tuple[str, str]]) -> None:
    """One line per alert, in its colour."""
    for colour, line in lines:
        st.markdown(f":{colour}[:material/notifications_active: {words.escape(line)}]")


def footer(now: datetime, run: str | None, commands: Sequence[tuple[str, str]]) -> None:
    """The time of the numbers and the state of the last command, always in one line, so that the page does not move."""
    left, right = st.columns(2, vertical_alignment="center")
    with left:
        messages.freshness(now, extra=f"run {run}" if run else "")
    if commands:
        colour, sentence = commands[-1]
        right.markdown(f":{colour}[:material/send: {words.escape(sentence)}]", text_alignment="right")
