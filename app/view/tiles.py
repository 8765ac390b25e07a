"""The chunk map: a tile a chunk, or a tile for a run of chunks when there are thousands.

A tile of several chunks shows its most urgent state, so that one failure among a hundred is seen, and how much of it is
done. Opening it (`window`) shows its chunks one by one.
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
    """Chunks `first` to `last`, both included."""

    first: int
    last: int
    state: str
    done: float
    """Share of the chunks that are read, 0 to 1."""

    @property
    def title(self) -> str:
        """What a screen reader says and a hover shows."""
        if self.first == self.last:
            return f"Chunk {self.first}: {CHUNK[self.state].label}"
        return f"Chunks {self.first}–{self.last}: {words.percent(self.done)} read, {CHUNK[self.state].label}"


def tile_size(chunks: int, most: int = MOST_TILES) -> int:
    """How many chunks a tile stands for, a round number."""
    return next((size for size in _SIZES if chunks <= size * most), -(-chunks // most))


def tiles(states: Sequence[ChunkState], window: tuple[int, int] | None = None, most: int = MOST_TILES) -> list[Tile]:
    """The tiles of a table, or of the chunks `window[0]` to `window[1]` only."""
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
    """The window as far as it has chunks; None, all of the map, where it has none: the table may be cut anew, into fewer."""
    chosen = _chosen(states, window)
    return (chosen[0].chunk, chosen[-1].chunk) if window and chosen else None


def note(states: Sequence[ChunkState], window: tuple[int, int] | None = None) -> str:
    """What a tile of this map is, and how to use it; empty for a map without a tile."""
    if not states:
        return ""
    size = tile_size(len(_chosen(states, window)))
    said = (
        f"A tile stands for {size} chunks and shows the most urgent of them; choose it to open it." if size > 1 else ""
    )
    if window:
        return f"Chunks {window[0]:,} to {window[1]:,}. {said}".rstrip()
    return said or "A tile is a chunk. Arrow keys move, Enter chooses."


def payload(shown: Sequence[Tile]) -> list[list[int | float]]:
    """Tiles for the browser, small: first, last, number of the state, done share."""
    return [[tile.first, tile.last, STATES.index(tile.state), round(tile.done, 3)] for tile in shown]


def legend(states: Sequence[ChunkState]) -> list[tuple[str, int]]:
    """(state, chunks) for every state, in the order of a chunk's life."""
    counted = Counter(chunk.state for chunk in states)
    return [(state, counted[state]) for state in STATES]
