"""The chunk map of a table, and the facts of the chunk that is chosen in it."""

import time

import streamlit as st

from app.parts import access, focus, home, messages, places
from app.parts.autorefresh import refreshing
from app.parts.chunk_map import chunk_map
from app.view import chunk_details, cutting, words
from app.view.status_style import CHUNK
from app.view.tiles import legend, note, opened, tiles
from engine.history import chunk_queries as chunks
from engine.history import table_queries as tables

_OPEN, _MOVED, _PICKED = "open tile", "chunk was picked", "chunk before and after the pick"
_LATE_S = 4.0
"""A refresh that the browser asked for before it heard of a pick comes within this time, with the number from before."""


def show(name: str) -> None:
    """Table and chunk are chosen outside the part that refreshes, and are part of the address."""
    if places.WISH in st.session_state:
        # Only what is not bound to a field here may be said by the address; the form takes the rest from the session.
        said = {field: st.session_state[places.WISH][field] for field in ("part", "chunks")}
        st.switch_page(places.REDUMP, query_params=said)
    # By rows, not by chunks: while tables are being cut, the number of their chunks changes and the first would change with it.
    by_size = sorted(home.ask(tables.plans, name), key=lambda plan: (-(plan.approx_rows or 0), plan.table))
    planned = {plan.table: plan for plan in by_size}
    if not planned:
        messages.nothing("No table planned yet", "The map appears as soon as the runner has planned a table.")
        return
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    table = left.selectbox("Table", list(planned), key="table", bind="query-params") or next(iter(planned))
    last = planned[table].last_chunk if planned[table].complete else None
    if last is not None and (st.session_state.get("chunk") or 0) > last:
        st.session_state["chunk"] = None
    before, picked, at = st.session_state.get(_PICKED, (None, None, 0.0))
    if picked is not None and st.session_state.get("chunk") == before and time.monotonic() < at + _LATE_S:
        st.session_state["chunk"] = picked
    chosen = middle.number_input(
        "Chunk, from 0" if last is None else f"Chunk, 0 to {last:,}",
        0,
        last,
        value=None,
        step=1,
        key="chunk",
        bind="query-params",
        placeholder="Click a tile or type",
    )
    window = st.session_state.get((_OPEN, name, table))
    if window and right.button("Show all chunks", icon=":material/zoom_out_map:", key="all"):
        st.session_state.pop((_OPEN, name, table))
        st.rerun()
    _map(name, table, window, chosen)
    if chosen is not None:
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            if access.operator():
                st.button(
                    "Read this chunk again",
                    icon=":material/sync:",
                    type="tertiary",
                    key="again",
                    on_click=_again,
                    args=(name, table),
                )
            with st.popover("Link", icon=":material/link:", type="tertiary"):
                st.code(places.address(st.context.url, pipeline=name, section="Chunks", table=table, chunk=str(chosen)))
                focus.first("link")
        _facts(name, table, chosen, planned[table].chunk_key)


def _again(name: str, table: str) -> None:
    """Whoever draws next leaves for the re-dump of the chunk that is chosen now.

    Not a link: the page of a chunk that was just picked is still being drawn, and would write its address over that of the link.
    Not the answer of a button: that is lost when the page is drawn anew, as it is because of the pick.
    """
    chosen = str(st.session_state["chunk"])
    st.session_state[places.WISH] = {"pipeline": name, "part": "Chunks", "table": table, "chunks": chosen}


@refreshing()
def _map(name: str, table: str, window: tuple[int, int] | None, chosen: int | None) -> None:
    if st.session_state.pop(_MOVED, False):
        st.rerun()
    states = home.ask(chunks.chunk_states, name, table)
    if window and not opened(states, window):
        st.session_state.pop((_OPEN, name, table), None)
        st.rerun()
    window = opened(states, window)
    with st.container(horizontal=True, gap="small"):
        for state, number in legend(states):
            look = CHUNK[state]
            st.badge(f"{look.letter} {look.label} {number:,}", color=look.colour, help=look.meaning)
    shown = tiles(states, window)

    def pick(first: int, last: int) -> None:
        if first == last:
            st.session_state[_PICKED] = (st.session_state.get("chunk"), first, time.monotonic())
            st.session_state["chunk"] = first
        else:
            st.session_state[_OPEN, name, table] = (first, last)
        st.session_state[_MOVED] = True

    chunk_map(shown, None if chosen is None else (chosen, chosen), key="map", on_pick=pick)
    (plan,) = home.ask(tables.plans, name, table) or [None]
    st.caption(" ".join(part for part in (cutting.follow(plan), note(states, window)) if part))


@refreshing()
def _facts(name: str, table: str, chosen: int, key: str) -> None:
    found = chunks.chunk(home.fresh(), name, table, chosen)
    with st.container(border=True):
        if found is None:
            st.markdown(f"**There is no chunk {chosen:,}**")
            return
        look = CHUNK[found.state]
        span = words.escape(words.span(found.lower, found.upper, key or "key"))
        st.markdown(f"**Chunk {chosen:,}** &ensp;:{look.colour}-badge[{look.letter} {look.label}]&ensp;{span}")
        if found.error:
            again = (
                None
                if found.retry_in_s is None
                else f"Nothing: the next try comes in {words.duration(found.retry_in_s)}."
            )
            messages.three_parts(
                found.error, "The chunk is not published; no row of it was.", again or "", amber=bool(again)
            )
        for column, (title, facts) in zip(st.columns([3, 4, 5], gap="medium"), chunk_details.facts(found), strict=True):
            with column:
                st.markdown(f"**{title}**")
                st.table(dict(facts), border="horizontal", hide_header=True)
