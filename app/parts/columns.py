"""Columns of tables: figures stand right, so that they can be compared at a glance; times are in the zone that is shown."""

import textwrap
from collections.abc import Iterable

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from app.view import zone

_SENTENCES = 320
"""Pixels."""
_LETTERS = 42
"""So many letters surely fit into a line of such a column."""
_LINE = 20
"""Pixels."""
_WRAPS = 66
"""Streamlit wraps texts in rows that are higher than 64 pixels, and in no others."""


def figure(help: str | None = None, width: int | None = None) -> ColumnConfig:  # noqa: A002 - Streamlit's own name for it
    """A number that is written with its unit or shortened, and so a text to Streamlit. width: pixels."""
    return st.column_config.TextColumn(help=help, width=width, alignment="right")


def figures(*names: str) -> dict[str, ColumnConfig]:
    """Such columns without a word of explanation."""
    return {name: figure() for name in names}


def time(label: str, width: int | None = None) -> dict[str, ColumnConfig]:
    """A column of instants, whose heading says the zone; what is taken along is in UTC. width: pixels."""
    heading, form = zone.heading(label), "YYYY-MM-DD HH:mm:ss"
    return {label: st.column_config.DatetimeColumn(heading, format=form, timezone=zone.name(), width=width)}


def sentences() -> ColumnConfig:
    """A column of sentences, for rows of such a `height`."""
    return st.column_config.TextColumn(width=_SENTENCES)


def height(texts: Iterable[str]) -> int | None:
    """Of rows, in pixels, so that none of these sentences is cut off; None, the usual height, where each fits one line."""
    lines = max((len(textwrap.wrap(text, _LETTERS)) for text in texts), default=0)
    return max(_LINE * lines + 6, _WRAPS) if lines > 1 else None
