"""The chunk map: one tile per chunk, or per range of chunks if there are thousands.

A tile of several chunks shows the most urgent state among them, so that one failure among a hundred is visible, and the share that
is read. Opening it (`window`) shows the chunks one by one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from app.view import words
from app.view.status_style import CHUNK
from engine.history.chunk_queries import STATES, ChunkState

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

    @property
    def title(self) -> str:
        """The tooltip, also for screen readers."""
        if self.first == self.last:
            return f"Chunk {self.first}: {CHUNK[self.state].label}"
        return f"Chunks {self.first}–{self.last}: {words.percent(self.done)} read, {CHUNK[self.state].label}"


def tile_size(chunks: int, most: int = MOST_TILES) -> int:
    """How many chunks one tile has, a round number."""
    return next((size for size in _SIZES if chunks <= size * most), -(-chunks // most))


def tiles(states: Sequence[ChunkState], window: tuple[int, int] | None = None, most: int = MOST_TILES) -> list[Tile]:
    """The tiles of a table, or only of the chunks `window[0]` to `window[1]`."""
    chosen = _chosen(states, window)
    size = tile_size(len(chosen), most)
    return [_tile(chosen[start : start + size]) for start in range(0, len(chosen), size)]


def _tile(chunks: Sequence[ChunkState]) -> Tile:
    states = {chunk.state for chunk in chunks}
    state = next(state for state in _URGENT if state in states)
    done = sum(chunk.state in _DONE for chunk in chunks) / len(chunks)
    return Tile(chunks[0].chunk, chunks[-1].chunk, state, done)


def _chosen(states: Sequence[ChunkState], window: tuple[int, int] | None) -> Sequence[ChunkState]:
    return [s for s in states if window is None or window[0] <= s.chunk <= window[1]]


def opened(states: Sequence[ChunkState], window: tuple[int, int] | None) -> tuple[int, int] | None:
    """The part of the window that has chunks; None, the whole map, if there is none. A resnapshot may plan fewer chunks."""
    chosen = _chosen(states, window)
    return (chosen[0].chunk, chosen[-1].chunk) if window and chosen else None


def note(states: Sequence[ChunkState], window: tuple[int, int] | None = None) -> str:
    """What a tile of this map is, and how to use it; empty for an empty map."""
    if not states:
        return ""
    size = tile_size(len(_chosen(states, window)))
    text = f"A tile has {size} chunks and shows the most urgent state. Select it to open it." if size > 1 else ""
    if window:
        return f"Chunks {window[0]:,} to {window[1]:,}. {text}".rstrip()
    return text or "A tile is a chunk. Arrow keys move, Enter selects."


def payload(shown: Sequence[Tile]) -> list[list[int | float]]:
    """The tiles for the browser, in compact form: first, last, index of the state, share read."""
    return [[tile.first, tile.last, STATES.index(tile.state), round(tile.done, 3)] for tile in shown]


def legend(states: Sequence[ChunkState]) -> list[tuple[str, int]]:
    """(state, chunks) for every state, in the order of a chunk's life."""
    counted = Counter(chunk.state for chunk in states)
    return [(state, counted[state]) for state in STATES]
