"""The head of a page about one pipeline: the title, and beside it the choice of the pipeline."""

import streamlit as st

from app.common import home, selection, welcome
from engine.pipeline.directory import Directory


def pipeline(title: str, purpose: str) -> Directory | None:
    """The chosen pipeline; None, with the reason shown, if none is chosen. purpose: shown if there are no pipelines."""
    directories = {where.root.name: where for where in home.directories()}
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    left.title(title, anchor=False)
    if not directories:
        welcome.brief(purpose)
        return None
    with right:
        where = selection.pipeline(directories)
    if where is None:
        selection.unselected()
    return where
