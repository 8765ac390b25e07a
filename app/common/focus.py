"""Keyboard focus for popovers. Streamlit leaves the focus on the button, and a popover comes last in the tab order.

Once the focus has left a popover, Tab does not lead back. So no field of a popover is disabled while another one is
filled in. One element serves all popovers of a page: with one for each, a list of 50 pipelines took twice as long to
draw.
"""

import streamlit as st

_FIRST = st.components.v2.component(
    "tidemark_focus",
    html="<span hidden></span>\n",
    js="""let loaded = false

export default function () {
  const bodies = () => [...document.querySelectorAll('[data-testid="stPopoverBody"]')]
  const open = event => {
    if (event.target.closest?.('[data-testid="stPopoverButton"]')) focusWithin(bodies())
  }
  const focusWithin = before => {
    let used = false
    const use = () => { used = true }
    for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, use, { once: true, capture: true })
    const take = tries => {
      if (used) return
      const body = bodies().find(one => !before.includes(one)), at = document.activeElement
      // Buttons may be drawn before fields: one that confirms must not have the focus before the reason can be entered.
      const first = body?.querySelector("input, textarea") ?? (tries > 80 ? null : body?.querySelector("button"))
      if (at !== first && !(body?.contains(at) && at.matches("input, textarea"))) first?.focus({ preventScroll: true })
      if (tries) setTimeout(take, 50, tries - 1)
    }
    take(100) // its fields may be replaced until it is in place, also after the first one has the focus
  }
  document.addEventListener("click", open, true)
  // A popover may have been opened before this was loaded.
  if (!loaded && document.activeElement?.closest('[data-testid="stPopoverButton"][aria-expanded="true"]')) \
focusWithin([])
  loaded = true
  return () => document.removeEventListener("click", open, true)
}
""",
)


def draw() -> None:
    """Focus the first field of a popover when it opens, on the whole page."""
    _FIRST(key="popover-focus", height=1)
