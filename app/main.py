"""The console: `python -m streamlit run app/main.py` from the root of the repository."""

from pathlib import Path

import streamlit as st

from app.parts import access, places

_ASSETS = Path(__file__).parent.parent / "assets"

st.set_page_config(page_title="Tidemark", page_icon=str(_ASSETS / "icon.svg"), layout="wide")
# Streamlit fades what is being drawn anew. Here that is every two seconds, and the page itself says how old its numbers are.
st.html("<style>[data-stale=true] {opacity: 1 !important; transition: none !important}</style>")
st.logo(str(_ASSETS / "logo.svg"), size="large")
screen = st.navigation(places.pages(operator=access.operator()), position="top")
access.sidebar()
screen.run()
