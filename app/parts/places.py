"""The screens, and the ways between them: addresses that can be kept, `/live?pipeline=shop&section=Chunks`."""

from urllib.parse import urlencode

import streamlit as st
from streamlit.navigation.page import StreamlitPage

PIPELINES, NEW, LIVE, REDUMP, EXPLORE, HISTORY, DIAGNOSTICS = (
    f"screens/{name}.py" for name in ("pipelines", "new", "live", "redump", "explore", "history", "diagnostics")
)

WISH = "to be read again"
"""Where the session has what the form of the re-dump is to hold, until it takes it."""


def pages(*, operator: bool) -> list[StreamlitPage]:
    """The screens in the order of the navigation; without those that change something or show rows, for who may only look."""
    usual = [
        st.Page(PIPELINES, title="Pipelines", icon=":material/lan:", url_path="pipelines", default=True),
        st.Page(LIVE, title="Live", icon=":material/monitor_heart:", url_path="live"),
        st.Page(HISTORY, title="History", icon=":material/history:", url_path="history"),
    ]
    if not operator:
        return usual
    pipelines, live, history = usual
    return [
        pipelines,
        st.Page(NEW, title="New pipeline", icon=":material/add_circle:", url_path="new"),
        live,
        st.Page(REDUMP, title="Re-dump", icon=":material/sync:", url_path="redump"),
        st.Page(EXPLORE, title="Explore", icon=":material/manage_search:", url_path="explore"),
        history,
        st.Page(DIAGNOSTICS, title="Diagnostics", icon=":material/medical_information:", url_path="diagnostics"),
    ]


def go_live(name: str) -> None:
    """Leave for a pipeline's live page."""
    st.switch_page(LIVE, query_params={"pipeline": name})


def address(page: str | None, **query: str) -> str:
    """A page's address with a query that leads back to what is shown."""
    return f"{(page or '').partition('?')[0]}?{urlencode(query)}"
