"""The button that merges changes that wait, because merging them costs much."""

from collections.abc import Sequence

import streamlit as st

from app.common import access, controls
from engine.pipeline.directory import Directory


def button(where: Directory, tables: Sequence[str]) -> None:
    """Merge these tables, or all if there are none. Nothing for a viewer."""
    if not access.operator():
        return
    click = controls.clicks(where.root.name)
    st.button(
        "Merge now",
        icon=":material/merge:",
        key=f"merge-{click}",
        help="Merges published changes into the mirrors now, however much that writes. "
        "Otherwise, expensive merges are deferred.",
        on_click=controls.send_once,
        args=(where, click, "merge", "", {"tables": list(tables)}),
    )
