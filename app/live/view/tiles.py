"""The chunk map: one tile per chunk, or per range of chunks if there are thousands.

A tile of several chunks shows the most urgent state among them, so that one failure among a hundred is visible, and the
share that is read; on a heat map, the highest value. Opening it (`window`) shows the chunks one by one.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from app.common.view import words
from app.common.view.status_style import CHUNK
from app.live.view.heat import Scale
from app.live.view.lineage import UNSPLIT, Lineage
from engine.history.chunk_queries import STATES, ChunkState
from engine.journal.sentences import named_chunks

MOST_TILES = 500
_SIZES = (1, 2, 3, 4, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000)
_URGENT = ("parked", "failed", "reading", "finished", "waiting", "published")
_DONE = ("finished", "published")


@dataclass(frozen=True)
class Tile:
    """A tile of the chunk map: the chunks `first` to `last`, both included."""

    first: int
    last: int
    state: str
    """The most urgent state of the chunks."""
    done: float
    """The share of the chunks that are read, 0 to 1."""
    step: int | None = None
    """The step of a heat map's scale; None without a value."""
    value: str = ""
    """The value with its unit, on a heat map."""
    span: str = ""
    """The bounds of a single chunk, if known."""
    split: str = ""
    """How many of the chunks were split because they were larger than planned; of a single chunk, also from and into
    which."""

    @property
    def title(self) -> str:
        """The accessible name."""
        label = CHUNK[self.state].label
        if self.first == self.last:
            parts = [f"Chunk {self.first}: {label}"]
        else:
            parts = [f"Chunks {self.first}–{self.last}: {words.percent(self.done)} read", label]
        return ", ".join(part for part in (*parts, self.value) if part)

    @property
    def more(self) -> str:
        """The further lines of the hover text."""
        return "\n".join(part for part in (self.span, self.split) if part)


def tile_size(chunks: int, most: int = MOST_TILES) -> int:
    """How many chunks one tile has, a round number."""
    return next((size for size in _SIZES if chunks <= size * most), -(-chunks // most))


def tiles(
    states: Sequence[ChunkState],
    window: tuple[int, int] | None = None,
    most: int = MOST_TILES,
    *,
    scale: Scale | None = None,
    lineage: Lineage = UNSPLIT,
    key: str = "key",
) -> list[Tile]:
    """The tiles of a table, or only of the chunks `window[0]` to `window[1]`.

    scale: of a heat map. lineage: of the table's chunks. key: the name of the chunk key.
    """
    window_states = _in_window(states, window)
    size = tile_size(len(window_states), most)
    return [
        _tile(window_states[start : start + size], scale, lineage, key) for start in range(0, len(window_states), size)
    ]


def _tile(chunks: Sequence[ChunkState], scale: Scale | None, lineage: Lineage, key: str) -> Tile:
    states = {chunk.state for chunk in chunks}
    state = next(state for state in _URGENT if state in states)
    done = sum(chunk.state in _DONE for chunk in chunks) / len(chunks)
    step, value = _valued(chunks, state, scale) if scale else (None, "")
    only = chunks[0] if len(chunks) == 1 else None
    span = (
        words.span(only.lower, only.upper, key) if only and (only.lower is not None or only.upper is not None) else ""
    )
    return Tile(chunks[0].chunk, chunks[-1].chunk, state, done, step, value, span, _split(chunks, lineage))


def _split(chunks: Sequence[ChunkState], lineage: Lineage) -> str:
    if len(chunks) == 1:
        return lineage.words(chunks[0].chunk)
    split_count = sum(chunk.chunk in lineage.splits for chunk in chunks) if lineage.splits else 0
    return f"{split_count:,} {'was' if split_count == 1 else 'were'} split" if split_count else ""


def _valued(chunks: Sequence[ChunkState], state: str, scale: Scale) -> tuple[int | None, str]:
    value = scale.value([chunk.value for chunk in chunks if chunk.value is not None])
    if value is None:
        return None, scale.colouring.missing(state)
    text = scale.colouring.text(value)
    return scale.step(value), text if len(chunks) == 1 else f"at most {text}"


def _in_window(states: Sequence[ChunkState], window: tuple[int, int] | None) -> Sequence[ChunkState]:
    return states if window is None else [s for s in states if window[0] <= s.chunk <= window[1]]


def opened(states: Sequence[ChunkState], window: tuple[int, int] | None) -> tuple[int, int] | None:
    """The part of the window that has chunks; None, the whole map, if there is none.

    A resnapshot may plan fewer chunks.
    """
    window_states = _in_window(states, window)
    return (window_states[0].chunk, window_states[-1].chunk) if window and window_states else None


def note(states: Sequence[ChunkState], window: tuple[int, int] | None = None, *, heat: bool = False) -> str:
    """What a tile of this map is, and how to use it; empty for an empty map."""
    if not states:
        return ""
    size, shows = tile_size(len(_in_window(states, window))), "highest value" if heat else "most urgent state"
    text = f"A tile has {size} chunks and shows the {shows}. Select it to open it." if size > 1 else ""
    if window:
        return f"Chunks {window[0]:,} to {window[1]:,}. {text}".rstrip()
    return text or "A tile is a chunk. Arrow keys move, Enter selects."


def payload(map_tiles: Sequence[Tile], scale: Scale | None = None) -> list[list[object]]:
    """The tiles for the browser, in compact form.

    First, last, index of the state, share read, accessible name, hover text.

    On a heat map also the digit and the shade of the step, both null without a value.
    """
    return [
        [tile.first, tile.last, STATES.index(tile.state), round(tile.done, 3), tile.title, tile.more]
        + ([] if scale is None else _step(tile, scale))
        for tile in map_tiles
    ]


def _step(tile: Tile, scale: Scale) -> list[object]:
    return [None, None] if tile.step is None else [scale.digit(tile.step), scale.shade(tile.step)]


def legend(states: Sequence[ChunkState]) -> list[tuple[str, int]]:
    """(state, chunks) for every state, in the order of a chunk's life."""
    counts = Counter(chunk.state for chunk in states)
    return [(state, counts[state]) for state in STATES]


def within(states: Sequence[ChunkState], tile_bounds: Sequence[tuple[int, int]]) -> list[int]:
    """The numbers of the chunks in brushed tiles (first, last), ascending. Numbers that no chunk has are left out."""
    chunks = [state.chunk for state in states]
    brushed_chunks = {
        n for first, last in tile_bounds for n in chunks[bisect_left(chunks, first) : bisect_right(chunks, last)]
    }
    return sorted(brushed_chunks)


def numbers_text(numbers: Sequence[int]) -> str:
    """`3, 7–9`, as the redump form takes it."""
    return named_chunks(numbers).partition(" ")[2] if numbers else ""
