"""Every run: when, for how long, how it ended, what it did."""

import pandas as pd
import streamlit as st

from app.parts import home, messages
from app.view import words
from app.view.past import past
from engine import clock
from engine.history import runs

_COLUMNS = {
    "Started (UTC)": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC"),
    "Rows": st.column_config.NumberColumn(format="localized"),
    "Changes": st.column_config.NumberColumn(format="localized"),
    "Rows/s": st.column_config.NumberColumn(format="compact", help="Over the time in which chunks were read"),
    "Why": st.column_config.TextColumn(width="large"),
}

st.title("History", anchor=False)


def page() -> None:
    """The list of runs, newest first."""
    cursor = home.fresh()
    names = sorted({run.pipeline for run in runs.runs(cursor, limit=5000)})
    if not names:
        messages.nothing(
            "No runs yet", "Each run of a pipeline leaves a line here, with what it read and how it ended."
        )
        return
    chosen = st.selectbox("Pipeline", ["all pipelines", *names], key="history-of", width=320)
    only = None if chosen == "all pipelines" else chosen
    alive = {where.root.name for where in home.directories() if (home.record_of(where) or {}).get("alive")}
    lines = past(runs.runs(cursor, only), runs.run_totals(cursor, only), alive, clock.utc_now())
    rows = [
        {
            "Started (UTC)": one.started,
            "Pipeline": one.pipeline,
            "Run": one.run,
            "Outcome": one.outcome,
            "Duration": words.duration(one.duration_s),
            "Rows": one.rows,
            "Rows/s": one.rows_s,
            "Chunks": one.chunks,
            "Changes": one.changes,
            "Errors": one.errors,
            "Why": one.reason,
        }
        for one in lines
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="runs",
        height=640 if len(rows) > 18 else "auto",
        column_config=_COLUMNS,
        alt="Runs, newest first",
    )
    messages.freshness(clock.utc_now(), extra=words.plural(len(rows), "run"))


page()
