"""The address that someone opened before the login. The login's provider sends everybody back to the first page.

The browser's tab keeps it meanwhile: the path and the query of this console, never another site's.
"""

import streamlit as st

_KEPT = "tidemark-return"
_COMPONENT = st.components.v2.component(
    "tidemark_return",
    html="<span hidden></span>\n",
    js=f"""export default function ({{ data }}) {{
  const here = window.location.pathname + window.location.search
  if (data === "keep") {{
    sessionStorage.setItem("{_KEPT}", here)
    return
  }}
  const kept = sessionStorage.getItem("{_KEPT}")
  sessionStorage.removeItem("{_KEPT}")
  if (kept?.startsWith("/") && !kept.startsWith("//") && !window.location.search && kept !== here) {{
    window.location.replace(kept)
  }}
}}
""",
)


def keep() -> None:
    """Keep the address of this page: the login follows."""
    _COMPONENT(key="return-kept", data="keep", height=1)


def follow() -> None:
    """Go to the kept address once; it is forgotten then."""
    _COMPONENT(key="return-followed", data="follow", height=1)
