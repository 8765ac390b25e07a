"""The chunk map as a component. Unlike Streamlit's charts, it keeps the selection and the focus over an autorefresh."""

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from app.view.status_style import CHUNK
from app.view.tiles import Tile, payload
from engine.history.chunk_queries import STATES

_HERE = Path(__file__).parent
_MAP = st.components.v2.component(
    "tidemark_chunk_map",
    html='<div id="grid" role="group" aria-label="Chunk map"></div>\n',
    css=(_HERE / "chunk_map.css").read_text(encoding="utf-8"),
    js=(_HERE / "chunk_map.js").read_text(encoding="utf-8"),
)
_STATES = [[CHUNK[state].letter, CHUNK[state].label, state] for state in STATES]


def chunk_map(
    tiles: Sequence[Tile], selected: tuple[int, int] | None, *, key: str, on_pick: Callable[[int, int], None]
) -> None:
    """The map. on_pick: called with the first and the last chunk of a tile that was clicked, or selected with Enter."""

    def picked() -> None:
        state = st.session_state.get(key)
        if state is not None and state.get("picked"):
            on_pick(*state["picked"])

    data = {"tiles": payload(tiles), "states": _STATES, "selected": selected}
    _MAP(key=key, data=data, on_picked_change=picked)
