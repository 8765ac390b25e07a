"""The console: `python -m streamlit run app/main.py` from the root of the repository."""

from pathlib import Path

import streamlit as st

from app.parts import access, places, times

_ASSETS = Path(__file__).parent.parent / "assets"

st.set_page_config(page_title="Tidemark", page_icon=str(_ASSETS / "icon.svg"), layout="wide")
# Streamlit fades stale elements during a rerun. Here that is every two seconds, and the page shows how old its numbers are.
st.html(
    "<style>[data-stale=true] {opacity: 1 !important; transition: none !important}"
    # On a wide screen the header stands beside the navigation.
    "@media (min-width: 1280px) {"
    "[data-testid=stLayoutWrapper]:has(> .st-key-header) {position: fixed; top: 0.75rem; right: 4rem; width: auto; z-index: 999991}"
    "}"
    # A pipeline is always selected.
    ".st-key-pipeline [aria-label='Clear value'] {display: none}"
    # A component without a visible part.
    ".st-key-times-kept {display: none}"
    "</style>"
)
st.logo(str(_ASSETS / "logo.svg"), size="large")
screen = st.navigation(places.pages(operator=access.operator()), position="top")
with st.container(key="header", horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
    access.who()
    times.choose()
screen.run()
