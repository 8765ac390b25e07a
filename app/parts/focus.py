"""Where the keyboard goes when something opens: Streamlit leaves it on the button, and a popover is the last stop of a page."""

import streamlit as st

_FIRST = st.components.v2.component(
    "tidemark_focus",
    html="<span hidden></span>\n",
    js="""export default function ({ parentElement }) {
  const root = parentElement.getRootNode()
  const body = (root.host ?? parentElement).closest('[data-testid="stPopoverBody"]')
  if (!body || body.dataset.met) return
  body.dataset.met = "yes" // it is drawn anew while somebody types elsewhere in it
  body.querySelector("input, textarea, button")?.focus({ preventScroll: true })
}
""",
)


def first(key: str) -> None:
    """The first field of the popover that this is drawn in has the keyboard when it opens."""
    _FIRST(key=f"{key}-focus", height=1)
