"""Where the keyboard goes when something opens: Streamlit leaves it on the button, and a popover is the last stop of a page.

A popover that the keyboard has left is not reached by Tab any more. So nothing in one is disabled while it is filled in.
"""

import streamlit as st

_FIRST = st.components.v2.component(
    "tidemark_focus",
    html="<span hidden></span>\n",
    js="""export default function ({ parentElement }) {
  const root = parentElement.getRootNode()
  const body = (root.host ?? parentElement).closest('[data-testid="stPopoverBody"]')
  if (!body || body.dataset.met) return
  body.dataset.met = "yes" // it is drawn anew while somebody types elsewhere in it
  const take = tries => {
    const at = document.activeElement
    if (!body.isConnected || (at !== body && body.contains(at))) return
    body.querySelector("input, textarea, button")?.focus({ preventScroll: true })
    if (tries) setTimeout(take, 50, tries - 1)
  }
  take(100) // it is not shown before it has its place, and its fields may be made anew until then
}
""",
)


def first(key: str) -> None:
    """The first field of the popover that this is drawn in has the keyboard when it opens."""
    _FIRST(key=f"{key}-focus", height=1)
