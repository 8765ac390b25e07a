"""The pages of a console without pipelines.

The idea in four boxes, and the way to the first pipeline or to the demo.
"""

import streamlit as st

from app.common import access, arrival, demo, home, messages, places
from app.common.view import words

_BOXES = (
    (
        ":material/fact_check:",
        "Connect and check",
        "Enter a MySQL or MariaDB server. The checks read its settings, and give the SQL for whatever is missing.",
    ),
    (
        ":material/table_rows:",
        "Choose tables",
        "Choose them in a tree, and see how each will be copied before anything is read.",
    ),
    (
        ":material/grid_view:",
        "Copy in chunks",
        (
            "Readers copy a table in chunks, without locks. Two watermarks, places in the binlog, "
            "bracket the read of each chunk."
        ),
    ),
    (
        ":material/sync_alt:",
        "Follow the binlog",
        "All changes since then come from the binlog, and the mirror stays equal to the source.",
    ),
)


def draw() -> None:
    """The page *Pipelines* while there is none. While the demo starts, there is nothing to press."""
    with st.container(border=True, horizontal_alignment="center"):
        st.space("small")
        st.markdown("### No pipelines yet", text_alignment="center", anchors=False)
        st.markdown(
            ":gray[A pipeline copies tables into a lakehouse, and keeps the copies equal while applications write to "
            "the source.]",
            text_alignment="center",
        )
        st.space("small")
        for number, (column, (icon, title, text)) in enumerate(zip(st.columns(4), _BOXES, strict=True), 1):
            with column, st.container(border=True, height="stretch"):
                st.markdown(f"**{icon} {number}. {title}**  \n:gray[{text}]")
        st.space("small")
        if access.operator() and not demo.running():
            with st.container(horizontal=True, horizontal_alignment="center"):
                new_pipeline()
                demo.button()
            demo.explanation()
        st.space("small")
    arrival.rerun_when(home.directories)
    st.caption(words.escape(f"Each folder in {home.home()} that has a pipeline.toml is a pipeline."))


def brief(text: str) -> None:
    """Any other page without pipelines. text: what the page would be for."""
    messages.nothing("No pipelines yet", text)
    arrival.rerun_when(home.directories)
    if access.operator():
        new_pipeline()


def new_pipeline() -> None:
    """The button that leads to the wizard."""
    if st.button("New pipeline", type="primary", icon=":material/add:", key="new"):
        st.switch_page(places.NEW, query_params={})
