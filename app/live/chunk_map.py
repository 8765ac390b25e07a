"""The chunk map as a component. Unlike Streamlit's charts, it keeps the selection and the focus over an autorefresh."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.common.view.status_style import CHUNK
from app.live.view.heat import Scale
from app.live.view.tiles import Tile, payload
from engine.history.chunk_queries import STATES

_HERE = Path(__file__).parent
_MAP = st.components.v2.component(
    "tidemark_chunk_map",
    html='<div id="scale" hidden></div><div id="grid" role="group" aria-label="Chunk map"></div>\n',
    css=(_HERE / "chunk_map.css").read_text(encoding="utf-8"),
    js=(_HERE / "chunk_map.js").read_text(encoding="utf-8"),
)
_STATES = [[CHUNK[state].letter, state] for state in STATES]


@dataclass(frozen=True)
class Brush:
    """The tiles that are brushed, to act on all their chunks."""

    tiles: tuple[tuple[int, int], ...] = ()
    """The first and the last chunk of each."""
    serial: int = 0
    """The browser's number of this brush. An answer to an older one must not undo a newer one."""


def chunk_map(
    tiles: Sequence[Tile],
    selected: tuple[int, int] | None,
    *,
    key: str,
    of: str,
    on_pick: Callable[[int, int, int], None],
    on_brush: Callable[[Brush], None] | None = None,
    brush: Brush = Brush(),
    scale: Scale | None = None,
) -> None:
    """Draw the map.

    scale: of a heat map. of: the table; the brushed tiles of another one are dropped. on_pick: called with the first
    and the last chunk of a tile that was clicked, or opened with Enter, and with the browser's serial number of that. A
    pick ends the brush. on_brush: None if no tiles can be brushed.
    """

    def picked() -> None:
        state = st.session_state.get(key)
        if state is not None and state.get("picked"):
            on_pick(*state["picked"])

    def brushed() -> None:
        state = st.session_state.get(key)
        if on_brush is not None and state is not None and state.get("brushed"):
            selection = state["brushed"]
            on_brush(Brush(tuple((first, last) for first, last in selection["tiles"]), selection["serial"]))

    data = {
        "tiles": payload(tiles, scale),
        "states": _STATES,
        "selected": selected,
        "of": of,
        "scale": None if scale is None else {"title": scale.title, "stops": scale.stops(), "note": scale.note},
        "brush": None if on_brush is None else {"tiles": brush.tiles, "serial": brush.serial},
    }
    _MAP(key=key, data=data, on_picked_change=picked, on_brushed_change=brushed)
