"""What only a screen reader says: headings that others do not need, and changes of state."""

import html

import streamlit as st

# A live region must stay in the page while its text changes; an element of Streamlit may be replaced.
_REGION = st.components.v2.component(
    "tidemark_spoken",
    html='<div role="status" aria-live="polite"></div>\n',
    js="""export default function ({ data, parentElement }) {
  const region = parentElement.querySelector("[role=status]")
  if (region.textContent !== data) region.textContent = data
}
""",
)


def heading(text: str) -> None:
    """The page's first heading, where a field takes its place on the screen."""
    st.html(f'<h1 class="unseen">{html.escape(text)}</h1>')


def state(sentence: str) -> None:
    """Say a sentence when it changes."""
    with st.container(key="spoken"):
        _REGION(key="spoken-state", data=sentence, height=1)
