"""Errors in three parts, empty states, and freshness."""

from datetime import datetime

import streamlit as st

from app.common import home
from app.common.view import words
from engine.base.errors import TidemarkError

_LINE = 20
"""Pixels of a line of code."""


def three_parts(
    message: str, detail: str = "", hint: str = "", *, amber: bool = False, above_buttons: bool = False
) -> None:
    """A message in three parts: what happened, what it means for the data, and what to do.

    above_buttons: as for `hints.for_console`.
    """
    text = words.three_parts(message, detail, hint, above_buttons=above_buttons)
    show = st.warning if amber else st.error
    show(text, icon=":material/warning:" if amber else ":material/error:")


def note(message: str, detail: str, hint: str) -> None:
    """A message in three parts about something that is in order."""
    st.info(words.three_parts(message, detail, hint), icon=":material/info:")


def error(problem: TidemarkError) -> None:
    """Show an error of the engine."""
    three_parts(problem.message, problem.detail, problem.hint)


def freshness(now: datetime, *, extra: str = "") -> None:
    """The time of the numbers on the page."""
    index = home.history()
    notes = [f"updated {words.time_of_day(now)}", extra]
    if index.in_memory:
        notes.append(f"history kept in memory: {index.in_memory}")
    if index.behind:
        notes.append(f"events and figures may be older: {index.behind}")
    st.caption(words.escape(" · ".join(note for note in notes if note)))


def nothing(title: str, text: str, icon: str = ":material/inbox:") -> None:
    """An empty state: what would be here, and why it is not."""
    with st.container(border=True, horizontal_alignment="center"):
        st.space("small")
        st.markdown(f"#### {icon} {words.escape(title)}", text_alignment="center", anchors=False)
        st.markdown(f":gray[{words.escape(text)}]", text_alignment="center")
        st.space("small")


def log(text: str, height: int) -> None:
    """The end of a log, scrolled to its last line."""
    long = text.count("\n") * _LINE > height
    with st.container(height=height if long else "content", border=False, autoscroll=long):
        st.code(text, language=None)
