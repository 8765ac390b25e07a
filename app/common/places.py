"""The screens and their URLs, such as `/live?pipeline=shop&section=Chunks`."""

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st
from streamlit.navigation.page import StreamlitPage

PIPELINES, NEW, LIVE, REDUMP, EXPLORE, HISTORY, DIAGNOSTICS = (
    f"screens/{name}.py" for name in ("pipelines", "new", "live", "redump", "explore", "history", "diagnostics")
)
TABLE = "screens/table.py"
VERIFY = "screens/verify.py"

ALERTS = "screens/alerts.py"
GLOSSARY = "screens/glossary_page.py"

_OPERATORS = ("New pipeline", "Redump", "Explore", "Diagnostics")
"""The titles of the pages that only operators have; the first word of each is its path."""
REDUMP_REQUEST = "redump request"
"""The session key of the values for the redump form, until the form takes them."""


def _to_pipelines() -> None:
    """Switch from `/pipelines` to the list, which Streamlit shows at `/` only, with its filters."""
    st.switch_page(PIPELINES, query_params={name: st.query_params.get_all(name) for name in st.query_params})


def _for_operators(title: str) -> Callable[[], None]:
    """What a viewer gets instead of a page that changes something or shows rows."""

    def page() -> None:
        st.title(title, anchor=False)
        st.info(
            f"**{title} is for operators, and you are logged in as a viewer.**\n\n"
            "It shows rows of the source or changes the pipeline. "
            "Ask the administrator for the role of an operator, or log in as one.",
            icon=":material/lock:",
        )
        st.page_link(PIPELINES, label="Open the pipelines", icon=":material/lan:")

    return page


def pages(*, operator: bool) -> list[StreamlitPage]:
    """The screens in the order of the navigation. A viewer gets none that change something or show rows."""
    usual = [
        st.Page(PIPELINES, title="Pipelines", icon=":material/lan:", url_path="list", default=True),
        st.Page(_to_pipelines, title="Pipelines", url_path="pipelines", visibility="hidden"),
        st.Page(LIVE, title="Live", icon=":material/monitor_heart:", url_path="live"),
        st.Page(TABLE, title="Table", icon=":material/table:", url_path="table"),
        st.Page(VERIFY, title="Verify", icon=":material/fact_check:", url_path="verify"),
        st.Page(HISTORY, title="History", icon=":material/history:", url_path="history"),
        st.Page(ALERTS, title="Alerts", icon=":material/notifications:", url_path="alerts"),
        st.Page(GLOSSARY, title="Glossary", icon=":material/menu_book:", url_path="glossary", visibility="hidden"),
    ]
    if not operator:
        titles = {title.partition(" ")[0].lower(): title for title in _OPERATORS}
        refusals = [
            st.Page(_for_operators(title), title=title, url_path=path, visibility="hidden")
            for path, title in titles.items()
        ]
        return usual + refusals
    pipelines, to_pipelines, live, table, verify, history, alerts, glossary = usual
    return [
        pipelines,
        to_pipelines,
        alerts,
        st.Page(NEW, title="New pipeline", icon=":material/add_circle:", url_path="new"),
        live,
        table,
        verify,
        st.Page(REDUMP, title="Redump", icon=":material/sync:", url_path="redump"),
        st.Page(EXPLORE, title="Explore", icon=":material/manage_search:", url_path="explore"),
        history,
        st.Page(DIAGNOSTICS, title="Diagnostics", icon=":material/medical_information:", url_path="diagnostics"),
        glossary,
    ]


def go_live(name: str) -> None:
    """Switch to a pipeline's live page."""
    st.switch_page(LIVE, query_params={"pipeline": name})


def table_address(pipeline: str, table: str) -> str:
    """The URL of a table's page, relative to every other page."""
    return address("table", pipeline=pipeline, table=table)


def chunk_address(pipeline: str, table: str, chunk: int) -> str:
    """The URL of a chunk's details, relative to every other page."""
    return address("live", pipeline=pipeline, section="Chunks", table=table, chunk=str(chunk))


def link_to_table(pipeline: str, table: str) -> None:
    """A link to a table's page."""
    query = {"pipeline": pipeline, "table": table}
    st.page_link(TABLE, label="Table page", icon=":material/table:", query_params=query)


@lru_cache(maxsize=1 << 14)
def address(page: str | None, **query: str) -> str:
    """The URL of a page with a query. Kept: pages list thousands of them every two seconds."""
    return f"{(page or '').partition('?')[0]}?{urlencode(query)}"
