"""The page's address, and the button that copies it.

It opens the same pipeline, table, filters and query for everybody else.
"""

import streamlit as st

from app.common import selection

_COMPONENT = st.components.v2.component(
    "tidemark_copy_link",
    html='<button type="button" aria-live="polite" aria-label="Copy link" '
    'title="Copy the address of this page">Link</button>\n',
    css="""
button {
  font: inherit; font-size: 0.875rem; line-height: 1.4; padding: 0.25rem 0.75rem; white-space: nowrap; cursor: pointer;
  color: var(--st-text-color); background: transparent;
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius);
}
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color) }
""",
    js="""export default function ({ parentElement }) {
  const button = parentElement.querySelector("button")
  const show = (text, name) => {
    button.textContent = text
    button.setAttribute("aria-label", name)
  }
  button.onclick = async () => {
    const address = window.location.href
    try {
      await navigator.clipboard.writeText(address)
      show("Copied", "Copied")
    } catch {  // no permission, or not a secure context
      window.prompt("Copy this address", address)
    }
    setTimeout(() => show("Link", "Copy link"), 2000)
  }
}
""",
)


def draw() -> None:
    """The button."""
    _COMPONENT(key="copy-link", width="content", height="content")


# As a page is left, Streamlit writes an address with its path and without its values: as a new entry of the browser's
# history, or, after *Back*, over the entry that is there. *Back* would lead to it, not to the section that was open.
# A page may be left before it is drawn, so this is decided by the addresses alone.
_GUARD = st.components.v2.component(
    "tidemark_history_guard",
    html="<span hidden></span>\n",
    js="""const history = window.history
if (!history.keepsPipeline) {
  history.keepsPipeline = true
  for (const name of ["pushState", "replaceState"]) {
    const write = history[name]
    history[name] = function (state, title, to) {
      const here = new URL(window.location.href), next = new URL(to ?? "", here)
      const loses = here.searchParams.has("pipeline") && !next.searchParams.has("pipeline")
      const all = here.pathname.endsWith("/alerts")  // it shows all pipelines then
      if (loses && !all && next.pathname === here.pathname) return
      write.call(history, state, title, to)
    }
  }
}
export default function () {}
""",
)


def guard() -> None:
    """Keep the pipeline in the addresses of pages that are left. Call it before the navigation is drawn."""
    _GUARD(key="history-guard", height=1)


# Streamlit would add an entry to the browser's history for each change.
_ADDRESS = st.components.v2.component(
    "tidemark_address",
    html="<span hidden></span>\n",
    js="""export default function ({ data }) {
  const url = new URL(window.location.href)
  if (url.pathname.split("/").pop() !== data.page) return  // another page was opened meanwhile
  for (const [name, values] of Object.entries(data.values)) {
    if (url.searchParams.getAll(name).join("\\n") === values.join("\\n") && url.searchParams.has(name)) continue
    url.searchParams.delete(name)
    for (const value of values) url.searchParams.append(name, value)
  }
  if (url.href !== window.location.href) history.replaceState(history.state, "", url)
}
""",
)
_RUNS = "runs of the script"


def complete(page: str) -> None:
    """Add the values that nobody has chosen to the address: it must keep its meaning if a default changes.

    Call it last.

    page: its path.
    """
    selection.keep_noted()
    number = st.session_state[_RUNS] = (
        st.session_state.get(_RUNS, 0) + 1
    )  # the browser runs it again if the data differ
    _ADDRESS(key="address-kept", data={"page": page, "values": selection.noted(), "run": number}, height=1)
