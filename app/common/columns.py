"""Columns of data frames: numbers are right-aligned, times are in the chosen time zone."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from app.common.view import zone

_SENTENCES = 320
"""The width of a column of sentences, in pixels."""
_LETTERS = 42
"""The letters that always fit into one line of such a column."""
_LINE = 20
"""The height of a line, in pixels."""
_LETTER, _MARGINS, _STEP = 8, 22, 10
"""The widest that a letter of a figure is on average, both margins of a cell, and the step of its width, in pixels."""
_WRAPS = 66
"""Streamlit wraps text only in rows that are higher than 64 pixels."""


# `help` is Streamlit's own name for it.
def figure(help: str | None = None, width: int | None = None) -> ColumnConfig:  # noqa: A002
    """A number with a unit, which is text to Streamlit. width: in pixels."""
    return st.column_config.TextColumn(help=help, width=width, alignment="right")


def figures(*names: str) -> dict[str, ColumnConfig]:
    """Such columns without a tooltip."""
    return {name: figure() for name in names}


def fitted(rows: Sequence[Mapping[str, object]], *names: str) -> dict[str, ColumnConfig]:
    """Such columns, each as wide as its longest text.

    A table that refreshes keeps the widths of its first rows: a text that grows is then cut at its left, and 1 h 42 min
    is read as 42 min.
    """
    return {name: figure(width=fitting([name, *(str(row.get(name, "")) for row in rows)])) for name in names}


def states(texts: Iterable[str]) -> ColumnConfig:
    """A column of states, wide enough for each of these, whichever comes first."""
    return st.column_config.TextColumn(width=fitting(texts))


def fitting(texts: Iterable[str]) -> int:
    """The width in pixels, in steps, in which each text fits."""
    longest = max(map(len, texts), default=0)
    return -(-(_LETTER * longest + _MARGINS) // _STEP) * _STEP


def time(label: str, width: int | None = None) -> dict[str, ColumnConfig]:
    """A column of times, with the time zone in its heading; downloads are in UTC. width: in pixels."""
    heading, form = zone.heading(label), "YYYY-MM-DD HH:mm:ss"
    return {label: st.column_config.DatetimeColumn(heading, format=form, timezone=zone.name(), width=width)}


def page() -> ColumnConfig:
    """A column of links to the pages of tables (`places.table_address`), in a tab of their own."""
    return st.column_config.LinkColumn(
        help="Opens the table's page", display_text=":material/open_in_new:", width=50, alignment="center"
    )


def verify() -> ColumnConfig:
    """A column of links to the page Verify, in a tab of their own."""
    return st.column_config.LinkColumn(
        help="Opens the page Verify with the table", display_text=":material/fact_check:", width=60, alignment="center"
    )


def chunk() -> ColumnConfig:
    """A column of links to the details of chunks, in a tab of their own."""
    return st.column_config.LinkColumn(
        help="Opens the chunk", display_text=":material/open_in_new:", width=90, alignment="center"
    )


def event() -> ColumnConfig:
    """A column of links to events, in a tab of their own."""
    return st.column_config.LinkColumn(
        help="Opens the event", display_text=":material/open_in_new:", width=60, alignment="center"
    )


def sentences() -> ColumnConfig:
    """A column of sentences, for rows of `height`."""
    return st.column_config.TextColumn(width=_SENTENCES)


def height(texts: Iterable[str]) -> int | None:
    """The row height in pixels at which no sentence is cut off; None, the default height, if each fits one line."""
    lines = max((len(textwrap.wrap(text, _LETTERS)) for text in set(texts)), default=0)
    return max(_LINE * lines + 6, _WRAPS) if lines > 1 else None
