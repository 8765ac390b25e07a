"""The list of pipelines."""

import streamlit as st

from app.common import access, demo, home, welcome
from app.pipelines import fleet

directories = home.directories()
with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
    st.title("Pipelines", anchor=False, width="content")
    if directories and access.operator():
        welcome.new_pipeline()

demo.draw()
if directories:
    fleet.show()
else:
    welcome.draw()
