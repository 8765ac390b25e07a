"""The screens and their URLs, such as `/live?pipeline=shop&section=Chunks`."""

from urllib.parse import urlencode

import streamlit as st
from streamlit.navigation.page import StreamlitPage

PIPELINES, NEW, LIVE, REDUMP, EXPLORE, HISTORY, DIAGNOSTICS = (
    f"screens/{name}.py" for name in ("pipelines", "new", "live", "redump", "explore", "history", "diagnostics")
)

REDUMP_REQUEST = "redump request"
"""The session key of the values for the redump form, until the form takes them."""


def pages(*, operator: bool) -> list[StreamlitPage]:
    """The screens in the order of the navigation. A viewer gets none that change something or show rows."""
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
        st.Page(REDUMP, title="Redump", icon=":material/sync:", url_path="redump"),
        st.Page(EXPLORE, title="Explore", icon=":material/manage_search:", url_path="explore"),
        history,
        st.Page(DIAGNOSTICS, title="Diagnostics", icon=":material/medical_information:", url_path="diagnostics"),
    ]


def go_live(name: str) -> None:
    """Switch to a pipeline's live page."""
    st.switch_page(LIVE, query_params={"pipeline": name})


def address(page: str | None, **query: str) -> str:
    """The URL of a page with a query."""
    return f"{(page or '').partition('?')[0]}?{urlencode(query)}"
