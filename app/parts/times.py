"""The choice of the zone in which times are shown: UTC, which all see alike, or that of one's own clock."""

import streamlit as st

from app.view import zone

_KEY = "times"
_LOCAL = "Local"


def choose() -> None:
    """The choice, which the address keeps; and what follows is drawn by it."""
    able = zone.known(st.context.timezone)
    st.segmented_control(
        "Times",
        ["UTC", _LOCAL],
        key=_KEY,
        default="UTC",
        required=True,
        bind="query-params",
        disabled=not able,
        label_visibility="collapsed",
        help=None if able else "The browser does not say in what zone it is",
    )
    show()


def show() -> None:
    """What this thread draws from here on is in the zone that was chosen."""
    name = st.context.timezone
    zone.show_in(name if st.session_state.get(_KEY) == _LOCAL and zone.known(name) else None)
