"""Keyboard focus for popovers. Streamlit leaves the focus on the button, and a popover comes last in the tab order.

Once the focus has left a popover, Tab does not lead back. So no field of a popover is disabled while another one is filled in.
"""

import streamlit as st

_FIRST = st.components.v2.component(
    "tidemark_focus",
    html="<span hidden></span>\n",
    js="""export default function ({ parentElement }) {
  const root = parentElement.getRootNode()
  const body = (root.host ?? parentElement).closest('[data-testid="stPopoverBody"]')
  if (!body || body.dataset.met) return
  body.dataset.met = "yes" // a rerun must not move the focus
  let used = false
  const use = () => { used = true }
  for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, use, { once: true, capture: true })
  const take = tries => {
    const at = document.activeElement
    if (!body.isConnected || used) return
    if (at === body || !body.contains(at)) body.querySelector("input, textarea, button")?.focus({ preventScroll: true })
    if (tries) setTimeout(take, 50, tries - 1)
  }
  take(100) // its fields may be replaced until it is in place, also after the first one has the focus
}
""",
)


def first(key: str) -> None:
    """Focus the first field of the enclosing popover when it opens."""
    _FIRST(key=f"{key}-focus", height=1)
