"""The list of pipelines."""

import streamlit as st

from app.parts import access, fleet, home, places

with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
    st.title("Pipelines", anchor=False, width="content")
    if access.operator() and st.button("New pipeline", icon=":material/add:", type="primary", key="new"):
        st.switch_page(places.NEW, query_params={})

if home.directories():
    fleet.show()
else:
    fleet.none_yet()
