"""Pages that have nothing to show yet: as soon as there is something, they show it."""

from collections.abc import Callable

import streamlit as st

from app.common.autorefresh import autorefresh


@autorefresh()
def rerun_when(arrived: Callable[[], object]) -> None:
    """Run the whole page again once `arrived` returns something. Draws nothing itself."""
    if arrived():
        st.rerun()
