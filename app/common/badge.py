"""The badge in the header and in the browser's title: how many alerts nobody has acknowledged.

It reads the small state files of every pipeline, not the journals: at 50 pipelines it takes a few milliseconds.
"""

import streamlit as st

from app.common import home, places
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.common.view.alert_list import page_title

# A fragment cannot change the title of the page by Streamlit's own means.
_TITLE = st.components.v2.component(
    "tidemark_title",
    html="<span hidden></span>\n",
    js="""export default function ({ data }) {
  document.title = data
}
""",
)


def waiting() -> int:
    """How many alerts of all pipelines need attention."""
    return sum(one.waits for where in home.directories() for one in home.firing(where))


def title(page: str) -> str:
    """The browser's title when the page is opened; `draw` keeps it current."""
    return page_title(waiting(), page)


@autorefresh(width="content")
def draw(page: str) -> None:
    """A link to the alerts, with their number; nothing if there is none. page: its title, for the browser's."""
    count = waiting()
    if count:
        label = f":red-badge[{words.plural(count, 'alert')}]"
        st.page_link(places.ALERTS, label=label, width="content")
    _TITLE(key="title-kept", data=page_title(count, page), height=1)
