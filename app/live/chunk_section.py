"""The chunk map of a table, and the details of the selected chunk."""

from collections.abc import Sequence

import streamlit as st

from app.common import access, home, meaning, messages, places, selection, table_fields
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.common.view.redump_form import MOST_CHUNKS
from app.common.view.status_style import CHUNK
from app.live.chunk_map import Brush, chunk_map
from app.live.view import chunk_counts, chunk_details, heat
from app.live.view.lineage import lineage
from app.live.view.tiles import MOST_TILES, legend, note, numbers_text, opened, tiles, within
from engine.base import clock
from engine.history import chunk_queries, chunk_splits, table_queries
from engine.history.chunk_queries import ChunkState

CHUNK_FIELD = "chunk"
"""The name of the field with the number of the chunk (`table_fields`)."""
_OPEN, _MOVED = "open tile", "chunk was picked"
_BRUSHED = "brushed tiles"
_SHOWN = 60
"""The most characters of the brushed chunks' numbers to show."""


def show(name: str) -> None:
    """The section. Table and chunk are selected outside of the autorefreshed part, and are part of the URL."""
    if places.REDUMP_REQUEST in st.session_state:
        # Fields that are bound to widgets on this page cannot be in the URL; the form takes them from the session.
        query = {field: st.session_state[places.REDUMP_REQUEST][field] for field in ("part", "chunks")}
        st.switch_page(places.REDUMP, query_params=query)
    # By rows, not by chunks: the numbers of chunks change while tables are split, and the first table would change with
    # them.
    by_size = sorted(home.ask(table_queries.plans, name), key=lambda plan: (-(plan.approx_rows or 0), plan.table))
    plans = {plan.table: plan for plan in by_size}
    if not plans:
        messages.nothing("No table planned yet", "The map appears as soon as the runner has planned a table.")
        return
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    with left:
        table = selection.table(list(plans), usual=next(iter(plans)))
    number = table_fields.settle(CHUNK_FIELD, (name, table or ""))
    if table is None:
        messages.nothing("Choose a table", "The table in the address is not captured by this pipeline.")
        return
    last = plans[table].last_chunk if plans[table].complete else None
    if number and (not number.isdecimal() or (last is not None and int(number) > last)):
        table_fields.put(CHUNK_FIELD, (name, table), "")
    with middle:
        chunk = _field(last)
    window = st.session_state.get(_open_tile(name, table))
    if window and right.button("Show all chunks", icon=":material/zoom_out_map:", key="all"):
        st.session_state.pop(_open_tile(name, table))
        st.rerun()
    with right.container(horizontal_alignment="right"):
        places.link_to_table(name, table)
    selection.default("colour", "State")
    st.segmented_control(
        "Colour by",
        list(heat.COLOURINGS),
        key="colour",
        bind="query-params",
        required=True,
        help=meaning.of("chunk", "watermark", "parked chunk", "redump"),
    )
    operator = access.operator()
    _map(name, table, window, chunk, operator=operator)
    if chunk is not None:
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            if operator:
                st.button(
                    "Redump this chunk",
                    icon=":material/sync:",
                    type="tertiary",
                    key="redump-chunk",
                    on_click=_redump,
                    args=(name, table, str(chunk)),
                )
            with st.popover("Link", icon=":material/link:", type="tertiary"):
                st.code(places.address(st.context.url, pipeline=name, section="Chunks", table=table, chunk=str(chunk)))
        _facts(name, table, chunk, plans[table].chunk_key)


def open_chunk(name: str, table: str, number: int) -> None:
    """Choose a chunk, and the section that shows it. The whole page must run again."""
    selection.open_section("Chunks", table)
    table_fields.put(CHUNK_FIELD, (name, table), str(number))


def _field(last: int | None) -> int | None:
    """The number of the chunk to show. last: the highest one; None while the table is split."""
    number = table_fields.value(CHUNK_FIELD)
    chunk = st.number_input(
        "Chunk, from 0" if last is None else f"Chunk, 0 to {last:,}",
        0,
        last,
        value=int(number) if number else None,
        step=1,
        key=table_fields.key(CHUNK_FIELD),
        placeholder="Click a tile or type",
    )
    table_fields.keep(CHUNK_FIELD, "" if chunk is None else str(chunk))
    return chunk


def _open_tile(name: str, table: str) -> str:
    """The session key of the range of chunks that is open in the map."""
    return str((_OPEN, name, table))


def _brushed(name: str, table: str) -> str:
    """The session key of the brushed tiles of a table."""
    return str((_BRUSHED, name, table))


def _redump(name: str, table: str, chunks: str) -> None:
    """Make the next run of the page switch to the redump form, with these chunks.

    A link does not work: the page of a chunk that was just picked is still running, and would overwrite the URL of the
    link. Nor does the return value of a button, which is lost in the rerun that the pick causes.
    """
    st.session_state[places.REDUMP_REQUEST] = {"pipeline": name, "part": "Chunks", "table": table, "chunks": chunks}


@autorefresh()
def _map(name: str, table: str, window: tuple[int, int] | None, chunk: int | None, *, operator: bool) -> None:
    if st.session_state.pop(_MOVED, False):
        st.rerun()
    colouring = heat.COLOURINGS.get(st.session_state.get("colour") or "State")
    measure = colouring.measure if colouring else None
    states = home.ask(chunk_queries.chunk_states, name, table, measure, bounds=window, few=MOST_TILES)
    if window and not opened(states, window):
        st.session_state.pop(_open_tile(name, table), None)
        st.rerun()
    window = opened(states, window)
    scale = heat.scale(states, colouring, clock.utc_now()) if colouring else None
    _badges(states, scale)
    plan = next(iter(home.ask(table_queries.plans, name, table)), None)
    splits = home.ask(chunk_splits.splits, name, table)
    visible_tiles = tiles(
        states, window, scale=scale, lineage=lineage(splits), key=(plan.chunk_key if plan else "") or "key"
    )
    brush = st.session_state.get(_brushed(name, table), Brush())

    def pick(first: int, last: int, serial: int) -> None:
        st.session_state[_brushed(name, table)] = Brush((), serial)
        if first == last:
            table_fields.put(CHUNK_FIELD, (name, table), str(first))
        else:
            st.session_state[_open_tile(name, table)] = (first, last)
        st.session_state[_MOVED] = True

    def keep(brush: Brush) -> None:
        st.session_state[_brushed(name, table)] = brush

    chunk_map(
        visible_tiles,
        None if chunk is None else (chunk, chunk),
        key="map",
        of=f"{name} {table}",
        on_pick=pick,
        on_brush=keep if operator else None,
        brush=brush,
        scale=scale,
    )
    usage = note(states, window, heat=scale is not None)
    if operator and states:
        usage += " Drag, or hold Shift, to select several for a redump."
    about = " ".join(
        part for part in (chunk_counts.more_note(plan), usage, scale.colouring.note if scale else "") if part
    )
    for line in filter(None, (about, chunk_counts.changed_note(plan, splits))):
        st.caption(line)
    if brush.tiles and operator:
        _act(name, table, states, brush)


def _badges(states: Sequence[ChunkState], scale: heat.Scale | None) -> None:
    """The chunks in each state. The legend of a heat map is a part of the map."""
    if scale is not None:
        return
    with st.container(horizontal=True, gap="small"):
        for state, number in legend(states):
            style = CHUNK[state]
            st.badge(f"{style.letter} {style.label} {number:,}", color=style.colour, help=style.meaning)


def _act(name: str, table: str, states: list[ChunkState], brush: Brush) -> None:
    """What can be done with the brushed chunks."""
    numbers = within(states, brush.tiles)
    if not numbers:
        return
    text = numbers_text(numbers)

    def redump() -> None:
        _redump(name, table, text)
        st.session_state[_MOVED] = True  # only a run of the whole page can switch to another

    def clear() -> None:
        st.session_state[_brushed(name, table)] = Brush((), brush.serial + 1)

    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN].rpartition(',')[0]}, …"
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        st.markdown(f"**{words.plural(len(numbers), 'chunk')} selected** &ensp;{words.escape(short)}")
        st.button(
            "Redump these chunks",
            icon=":material/sync:",
            type="tertiary",
            key="redump-chunks",
            on_click=redump,
            disabled=len(numbers) > MOST_CHUNKS,
            help=f"At most {MOST_CHUNKS:,} chunks at a time" if len(numbers) > MOST_CHUNKS else None,
        )
        st.button("Clear selection", icon=":material/close:", type="tertiary", key="clear-chunks", on_click=clear)


@autorefresh()
def _facts(name: str, table: str, chunk: int, key: str) -> None:
    details = chunk_queries.chunk(home.fresh(), name, table, chunk)
    splits = home.ask(chunk_splits.splits, name, table)
    with st.container(border=True):
        if details is None:
            st.markdown(f"**There is no chunk {chunk:,}**")
            return
        style = CHUNK[details.state]
        span = words.escape(words.span(details.lower, details.upper, key or "key"))
        st.markdown(f"**Chunk {chunk:,}** &ensp;:{style.colour}-badge[{style.letter} {style.label}]&ensp;{span}")
        if details.error:
            retry = (
                None
                if details.retry_in_s is None
                else f"Nothing: the next attempt is in {words.duration(details.retry_in_s)}."
            )
            messages.three_parts(
                details.error, "None of the chunk's rows is published.", retry or "", amber=bool(retry)
            )
        for column, (title, facts) in zip(
            st.columns([3, 4, 5], gap="medium"), chunk_details.facts(details, lineage(splits)), strict=True
        ):
            with column:
                terms = chunk_details.MEANINGS.get(title, ())
                st.markdown(f"**{title}**", help=meaning.of(*terms) if terms else None)
                st.table({label: words.escape(value) for label, value in facts}, border="horizontal", hide_header=True)
