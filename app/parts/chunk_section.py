"""The chunk map of a table, and the details of the selected chunk."""

import time

import streamlit as st

from app.parts import access, focus, home, messages, places, selection
from app.parts.autorefresh import autorefresh
from app.parts.chunk_map import chunk_map
from app.view import chunk_counts, chunk_details, words
from app.view.status_style import CHUNK
from app.view.tiles import legend, note, opened, tiles
from engine.history import chunk_queries, table_queries

_OPEN, _MOVED, _PICKED = "open tile", "chunk was picked", "chunk before and after the pick"
_LATE_S = 4.0
"""For this long after a pick, an autorefresh may still arrive with the previous chunk number."""


def show(name: str) -> None:
    """The section. Table and chunk are selected outside of the autorefreshed part, and are part of the URL."""
    if places.REDUMP_REQUEST in st.session_state:
        # Fields that are bound to widgets on this page cannot be in the URL; the form takes them from the session.
        query = {field: st.session_state[places.REDUMP_REQUEST][field] for field in ("part", "chunks")}
        st.switch_page(places.REDUMP, query_params=query)
    # By rows, not by chunks: the numbers of chunks change while tables are split, and the first table would change with them.
    by_size = sorted(home.ask(table_queries.plans, name), key=lambda plan: (-(plan.approx_rows or 0), plan.table))
    planned = {plan.table: plan for plan in by_size}
    if not planned:
        messages.nothing("No table planned yet", "The map appears as soon as the runner has planned a table.")
        return
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    with left:
        table = selection.table(list(planned), usual=next(iter(planned)))
    if table is None:
        messages.nothing("Choose a table", "The table in the address is not captured by this pipeline.")
        return
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
    window = st.session_state.get(_open_tile(name, table))
    if window and right.button("Show all chunks", icon=":material/zoom_out_map:", key="all"):
        st.session_state.pop(_open_tile(name, table))
        st.rerun()
    with right.container(horizontal_alignment="right"):
        places.link_to_table(name, table)
    _map(name, table, window, chosen)
    if chosen is not None:
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            if access.operator():
                st.button(
                    "Redump this chunk",
                    icon=":material/sync:",
                    type="tertiary",
                    key="redump-chunk",
                    on_click=_redump,
                    args=(name, table),
                )
            with st.popover("Link", icon=":material/link:", type="tertiary"):
                st.code(places.address(st.context.url, pipeline=name, section="Chunks", table=table, chunk=str(chosen)))
                focus.first("link")
        _facts(name, table, chosen, planned[table].chunk_key)


def _open_tile(name: str, table: str) -> str:
    """The session key of the range of chunks that is open in the map."""
    return str((_OPEN, name, table))


def _redump(name: str, table: str) -> None:
    """Make the next run of the page switch to the redump form, with the selected chunk.

    A link does not work: the page of a chunk that was just picked is still running, and would overwrite the URL of the link. Nor
    does the return value of a button, which is lost in the rerun that the pick causes.
    """
    chosen = str(st.session_state["chunk"])
    st.session_state[places.REDUMP_REQUEST] = {"pipeline": name, "part": "Chunks", "table": table, "chunks": chosen}


@autorefresh()
def _map(name: str, table: str, window: tuple[int, int] | None, chosen: int | None) -> None:
    if st.session_state.pop(_MOVED, False):
        st.rerun()
    states = home.ask(chunk_queries.chunk_states, name, table)
    if window and not opened(states, window):
        st.session_state.pop(_open_tile(name, table), None)
        st.rerun()
    window = opened(states, window)
    with st.container(horizontal=True, gap="small"):
        for state, number in legend(states):
            style = CHUNK[state]
            st.badge(f"{style.letter} {style.label} {number:,}", color=style.colour, help=style.meaning)
    shown = tiles(states, window)

    def pick(first: int, last: int) -> None:
        if first == last:
            st.session_state[_PICKED] = (st.session_state.get("chunk"), first, time.monotonic())
            st.session_state["chunk"] = first
        else:
            st.session_state[_open_tile(name, table)] = (first, last)
        st.session_state[_MOVED] = True

    chunk_map(shown, None if chosen is None else (chosen, chosen), key="map", on_pick=pick)
    plan = next(iter(home.ask(table_queries.plans, name, table)), None)
    st.caption(" ".join(part for part in (chunk_counts.more_note(plan), note(states, window)) if part))


@autorefresh()
def _facts(name: str, table: str, chosen: int, key: str) -> None:
    found = chunk_queries.chunk(home.fresh(), name, table, chosen)
    with st.container(border=True):
        if found is None:
            st.markdown(f"**There is no chunk {chosen:,}**")
            return
        style = CHUNK[found.state]
        span = words.escape(words.span(found.lower, found.upper, key or "key"))
        st.markdown(f"**Chunk {chosen:,}** &ensp;:{style.colour}-badge[{style.letter} {style.label}]&ensp;{span}")
        if found.error:
            retry = (
                None
                if found.retry_in_s is None
                else f"Nothing: the next attempt is in {words.duration(found.retry_in_s)}."
            )
            messages.three_parts(
                found.error, "The chunk is not published, nor is any of its rows.", retry or "", amber=bool(retry)
            )
        for column, (title, facts) in zip(st.columns([3, 4, 5], gap="medium"), chunk_details.facts(found), strict=True):
            with column:
                st.markdown(f"**{title}**")
                st.table(dict(facts), border="horizontal", hide_header=True)
