"""The choice of the time zone: UTC, or the browser's."""

import streamlit as st

from app.common.view import zone

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
    """The control. The browser keeps the choice in a cookie; the rest of the page follows it.

    It is not part of the URL, because a link may be opened by someone in another time zone.
    """
    name = st.context.timezone
    able = zone.exists(name)
    why = f"The browser's time zone {name} is unknown" if name else "The browser does not report its time zone"
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
    """Use the chosen time zone from here on in this thread."""
    name = st.context.timezone
    zone.show_in(name if st.session_state.get(_KEY) == _LOCAL and zone.exists(name) else None)
