"""Requests to buckets, and what they cost, below the tables of the destination."""

from collections.abc import Sequence
from datetime import timedelta

import pandas as pd
import streamlit as st

from app.common import columns, home
from app.common.view import words
from app.live.view import requests as view
from engine.base import clock
from engine.explore.destination_sizes import TableSizes
from engine.history import request_queries
from engine.pipeline.directory import Directory
from engine.spec.settings import Spec

_DAYS = 30
_COLUMNS = {
    "Epochs": columns.figure("Epochs that were committed on this day"),
    "Puts": columns.figure("PUT and POST requests, and copies within the store"),
    "Lists": columns.figure("LIST requests; stores charge for them as for puts"),
    "Gets": columns.figure("GET and HEAD requests"),
    "Deletes": columns.figure("DELETE requests, each of up to a thousand objects"),
    "Sent": columns.figure("Bytes written to the store"),
    "Received": columns.figure("Bytes read from the store"),
    "Per epoch": columns.figure("Requests of all kinds, divided by the epochs of the day"),
    "Cost": columns.figure("By the prices in the spec; storage is not part of it"),
    "Cost per month": columns.figure("If all days were like this one; storage is not part of it"),
}


def section(where: Directory, spec: Spec, sizes: Sequence[TableSizes]) -> None:
    """Requests by day and by table; nothing for a pipeline without a bucket."""
    if not (any(sink.is_bucket for sink in (spec.sink, *spec.sinks)) or spec.state):
        return
    name, now = where.root.name, clock.utc_now()
    since = now - timedelta(days=_DAYS)
    requests = home.ask(request_queries.requests, name, since)
    epochs = {one.day: one.epochs for one in home.ask(request_queries.epochs, name, since)}
    stored = [one.sizes for one in sizes if one.sizes is not None]
    stored_bytes = sum(one.mirror_bytes + one.changes_bytes + one.old_bytes for one in stored) if stored else None
    costs = view.costs(requests, epochs, spec.sink.prices, stored_bytes, now)
    with st.expander("Requests to the bucket", icon=":material/cloud:"):
        if not costs.days:
            st.caption("None yet: a run notes them every ten minutes, and at its end.")
            return
        if costs.sentence:
            st.markdown(f"**Costs** {words.escape(costs.sentence)}")
        _table("requests-days", costs.days, "Requests by day")
        _table("requests-tables", costs.tables, "Requests by table")
        prices = "" if spec.sink.prices else " With `[sink.prices]` in the spec, this page shows money too."
        st.caption(
            f"The second table is of {costs.of_day:%Y-%m-%d} (UTC). A run notes its requests every ten minutes and at "
            "its end. Those that the client repeats, and those of the console and of commands, are not counted."
            f"{prices}"
        )


def _table(key: str, rows: Sequence[object], label: str) -> None:
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, key=key, column_config=_COLUMNS, placeholder=words.NOTHING, alt=label
    )
