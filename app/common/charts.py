"""Figures in the console's theme."""

from collections.abc import Callable

import streamlit as st

from app.common.view.figure import Figure, in_light

_CONFIG = {"displaylogo": False, "displayModeBar": False, "scrollZoom": False}


def plot(figure: Figure, key: str, alt: str, on_click: Callable[[], None] | None = None) -> None:
    """A plotly figure. on_click: called when a point is clicked; the session has it under `key`."""
    figure = in_light(figure) if st.context.theme.type == "light" else figure
    st.plotly_chart(figure, key=key, config=_CONFIG, alt=alt, on_select=on_click or "ignore", selection_mode="points")
