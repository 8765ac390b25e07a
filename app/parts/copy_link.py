"""The button that copies the page's address, which opens the same pipeline, table, filters and query for everybody else."""

import streamlit as st

_COMPONENT = st.components.v2.component(
    "tidemark_copy_link",
    html='<button type="button" aria-live="polite" aria-label="Copy link" title="Copy the address of this page">Link</button>\n',
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
