"""The section on the source: what has changed there since the run began, before and after."""

from datetime import datetime

import pandas as pd
import streamlit as st

from app.common import columns, home
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.live.view.source_changes import LastComparison, compared, rows
from engine.base import clock
from engine.pipeline.directory import Directory


@autorefresh()
def section(where: Directory) -> None:
    """The section."""
    began = home.runner(where).started
    st.markdown(
        "**Changes on the source** :gray[since the run began]",
        help="A run compares the source every minute, and after each outage, with its state when the run began: "
        "settings that affect reading, values or the binlog, the account's grants, the TLS certificate, "
        "and the version.",
    )
    comparison = compared(home.live_record(where))
    if comparison is None:
        st.markdown(":gray[:material/info: No runner has compared the source yet, or none is alive.]")
        return
    _verdict(comparison, began, clock.utc_now())
    if comparison.changes:
        changes = rows(comparison)
        st.dataframe(
            pd.DataFrame(changes),
            hide_index=True,
            key="source-changes",
            row_height=columns.height(str(one[side]) for one in changes for side in ("Before", "Now")),
            column_config={**columns.time("Noticed", 150), "Before": columns.sentences(), "Now": columns.sentences()},
            placeholder=words.NOTHING,
            alt="What has changed on the source since the run began",
        )
    st.caption(f"compared {words.date_time(comparison.at)}")


def _verdict(comparison: LastComparison, began: datetime | None, now: datetime) -> None:
    since = f"since {words.date_time(began)}"
    if comparison.failing:
        st.markdown(f":orange[:material/warning: {words.escape(comparison.failing)}]")
    if comparison.changes:
        st.markdown(f":orange[:material/difference: **{words.plural(len(comparison.changes), 'change')}** {since}]")
    elif not comparison.failing and comparison.is_old(now):
        st.markdown(
            f":gray[:material/history: None of {comparison.facts:,} facts had changed when they were last compared.]"
        )
    elif not comparison.failing:
        st.markdown(f":green[:material/check_circle: None of {comparison.facts:,} facts has changed {since}.]")
