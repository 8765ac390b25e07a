"""Autorefresh: Streamlit fragments that run again every few seconds, each in its own container.

A fragment writes into the script's containers at the positions it had when it was declared. Without a container of its
own, the page can go blank. Suppose that a fragment is due while the whole page runs, and the server has not sent the
page's messages yet. (One event loop sends for all browsers. On a busy machine it can be some tenths of a second late.)

1. The run of the whole page ends. The browser will drop all elements that this run did not send.
2. The fragment runs at once, and the server removes the fragment's unsent messages from the queue, because the fragment
   sends them again (`ForwardMsgQueue.clear` in Streamlit 1.67). Messages that belong to no fragment stay.

So the browser receives a whole page without the fragments, drops their elements, and the siblings after them move up.
Then the second of two fragments has position 2 in a list of one element. The browser throws "Bad delta path index",
shows an empty page and closes the connection.

The container around a fragment does not belong to the fragment. Its message is never removed, so it keeps the position,
and the only position inside it is 0. `tests/browser/test_starved.py` reproduces the error and shows that it is gone.
"""

from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec

import streamlit as st

from app.common import times

P = ParamSpec("P")

INTERVAL_S = 2.0
"""The seconds between two runs."""


def autorefresh(
    every_s: float = INTERVAL_S, *, width: Literal["stretch", "content"] = "stretch"
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorate a function that draws part of a page: it runs again every `every_s` seconds while the page is open.

    width: of its container.
    """

    def decorate(draw: Callable[P, None]) -> Callable[P, None]:
        @wraps(draw)
        def draw_part(*args: P.args, **kwargs: P.kwargs) -> None:
            times.show()
            draw(*args, **kwargs)

        part = st.fragment(run_every=every_s)(draw_part)

        @wraps(draw)
        def draw_in_container(*args: P.args, **kwargs: P.kwargs) -> None:
            with st.container(width=width):
                part(*args, **kwargs)

        return draw_in_container

    return decorate
