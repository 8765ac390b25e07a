"""The choice of the zone in which times are shown: UTC, which all see alike, or that of one's own clock."""

import streamlit as st

from app.view import zone

_KEY = "times"
_LOCAL = "Local"


def choose() -> None:
    """The choice, which this browser's session keeps; what follows is drawn by it.

    Not part of the address: links are for others, whose clocks are theirs.
    """
    name = st.context.timezone
    able = zone.known(name)
    why = (
        f"No time can be computed in {name}, the browser's zone"
        if name
        else "The browser does not say in what zone it is"
    )
    st.segmented_control(
        "Times",
        ["UTC", _LOCAL],
        key=_KEY,
        default="UTC",
        required=True,
        disabled=not able,
        label_visibility="collapsed",
        help=None if able else why,
    )
    show()


def show() -> None:
    """What this thread draws from here on is in the zone that was chosen."""
    name = st.context.timezone
    zone.show_in(name if st.session_state.get(_KEY) == _LOCAL and zone.known(name) else None)
