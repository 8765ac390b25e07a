"""The glossary: each word of the console with its meaning. Tooltips link to it."""

import pandas as pd
import streamlit as st

from app.common import meaning, messages
from app.common.view import words

st.title("Glossary", anchor=False)
if rows := meaning.rows():
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="glossary",
        height="content",
        column_config={"Word": st.column_config.TextColumn(width="medium", pinned=True)},
        placeholder=words.NOTHING,
        alt="Words and their meanings",
    )
else:
    messages.nothing("No glossary here", "This installation lacks docs/glossary.md.")
