"""The three-layer strip, the status line, and what became of commands: the top of every page about one pipeline."""

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


def strip(layers: Sequence[Layer]) -> None:
    """Three cards of the same height."""
    for column, layer in zip(st.columns(len(layers), gap="small"), layers, strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown(f":gray[{words.escape(layer.title)}]", help=layer.help)
            st.markdown(f"#### :{layer.colour}[{_ICONS[layer.colour]} {words.escape(layer.headline)}]", anchors=False)
            first, *rest = layer.details or (words.NOTHING,)
            text = words.escape(first)
            st.markdown(f":gray[{text}]" if layer.colour == "gray" else f"**{text}**")
            st.markdown(f":small[:gray[{words.escape(' · '.join(rest)) or '&nbsp;'}]]")


def alerts(lines: Sequence[str]) -> None:
    """What stands, a line each; no room is taken when all is well."""
    for line in lines:
        st.markdown(f":red[:material/notifications_active: {words.escape(line)}]")


def footer(now: datetime, run: str | None, commands: Sequence[tuple[str, str]]) -> None:
    """When the numbers were taken, and what became of the last command; always one line, so that nothing below jumps."""
    left, right = st.columns(2, vertical_alignment="center")
    with left:
        messages.freshness(now, extra=f"run {run}" if run else "")
    if commands:
        colour, sentence = commands[-1]
        right.markdown(f":{colour}[:material/send: {words.escape(sentence)}]", text_alignment="right")
