"""The choice of the zone in which times are shown: UTC, which all see alike, or that of one's own clock."""

import streamlit as st

from app.view import zone

_KEY = "times"
_LOCAL = "Local"
_COOKIE = "tidemark_times"
_KEEP = st.components.v2.component(
    "tidemark_times",
    html="<span hidden></span>\n",
    js=f"""export default function ({{ data }}) {{
  document.cookie = `{_COOKIE}=${{data}}; path=/; max-age=31536000; samesite=lax`
}}
""",
)


def choose() -> None:
    """The choice, which this browser keeps in a cookie; what follows is drawn by it.

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
        default=_LOCAL if able and st.context.cookies.get(_COOKIE) == _LOCAL else "UTC",
        required=True,
        disabled=not able,
        label_visibility="collapsed",
        help=None if able else why,
    )
    if able:
        _KEEP(key="times-kept", data=st.session_state[_KEY], height=1)
    show()


def show() -> None:
    """What this thread draws from here on is in the zone that was chosen."""
    name = st.context.timezone
    zone.show_in(name if st.session_state.get(_KEY) == _LOCAL and zone.known(name) else None)
