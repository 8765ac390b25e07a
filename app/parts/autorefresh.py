"""Parts of a page that refresh by themselves, each in a place of its own so that a busy machine cannot blank the page.

A fragment writes into the script's containers at the positions that it had when it was declared. Two things meet when a
refresh is due while the whole page is being drawn, and the server has not yet sent what was drawn (one event loop sends
for all browsers; on a machine without time it comes too late by tenths of seconds):

1. The whole page ends. The browser will drop everything that this drawing did not bring.
2. The refresh begins at once, and the server takes back what is not yet sent of the same fragment, because the refresh
   brings it anew (`ForwardMsgQueue.clear` in Streamlit 1.67). What is not a fragment's stays.

So the browser hears of a whole page without the fragments, drops their places, and the siblings after them move up. Then
the second of two fragments is to be put at position 2 of a list of one: the browser throws "Bad delta path index", takes
the page down to nothing and closes its connection.

The container around each fragment is not the fragment's: it is never taken back, keeps the fragment's position, and
inside it the fragment's only position is 0, which is always there. `tests/browser/test_starved.py` shows the fault and that
it is gone.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st

from app.parts import times

P = ParamSpec("P")

REFRESH_S = 2.0
"""How often a live part asks again."""


def refreshing(every_s: float = REFRESH_S) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a function that draws a part of a page draw it again every `every_s` seconds, for as long as it is looked at."""

    def decorate(draw: Callable[P, None]) -> Callable[P, None]:
        @wraps(draw)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
            times.show()
            draw(*args, **kwargs)

        part = st.fragment(run_every=every_s)(drawn)

        @wraps(draw)
        def placed(*args: P.args, **kwargs: P.kwargs) -> None:
            with st.container():
                part(*args, **kwargs)

        return placed

    return decorate
