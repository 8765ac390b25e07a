"""Enter opens the link of a table's cell (`columns.page`, `columns.event`, `columns.verify`).

Streamlit opens it for a mouse only.

The cells are a picture. For screen readers, the table has elements too, which hold the address and have the focus.
"""

import streamlit as st

_COMPONENT = st.components.v2.component(
    "tidemark_cell_links",
    html="<span hidden></span>\n",
    js="""export default function () {
  const open = event => {
    const text = event.target.closest?.("[role=gridcell]")?.textContent ?? ""
    if (event.key !== "Enter" || !/^(table|live|verify)\\?pipeline=/.test(text)) return
    event.stopPropagation()
    window.open(new URL(text, window.location.href), "_blank", "noopener")
  }
  window.addEventListener("keydown", open, true)
  return () => window.removeEventListener("keydown", open, true)
}
""",
)


def draw() -> None:
    """Let Enter open such links, on the whole page."""
    _COMPONENT(key="cell-links", height=1)
