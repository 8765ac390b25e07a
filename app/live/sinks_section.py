"""The further sinks, above the tables of the first destination."""

import pandas as pd
import streamlit as st

from app.common import home
from app.common.view import words
from app.live.view import sinks
from engine.base import clock
from engine.pipeline.directory import Directory


def section(where: Directory) -> None:
    """A row per further sink; nothing without any."""
    record = home.record_of(where)
    if record is None or not record.sinks:
        return
    st.markdown("**Further sinks**")
    st.dataframe(
        pd.DataFrame(sinks.rows(record.sinks, clock.utc_now())),
        hide_index=True,
        key="sinks",
        placeholder=words.NOTHING,
        alt="State of each further sink",
    )
    if any(one.state == "stopped" for one in record.sinks):
        st.error(
            "A stopped sink gets nothing any more. To begin it again: remove it from the spec and start the pipeline; "
            "then stop it, add the sink to the spec again and start the pipeline.",
            icon=":material/error:",
        )
