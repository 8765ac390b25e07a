"""The chunk map: every chunk is in exactly one tile, and a failure is always visible."""

from hypothesis import given
from hypothesis import strategies as st

from app.common.view.redump_form import numbers
from app.common.view.status_style import CHUNK
from app.live.view.lineage import lineage
from app.live.view.tiles import Tile, legend, note, numbers_text, opened, payload, tile_size, tiles, within
from engine.history.chunk_queries import STATES, ChunkState
from engine.history.chunk_splits import ChunkSplit

LISTS = st.lists(st.sampled_from(STATES), max_size=300)


def states(names: list[str]) -> list[ChunkState]:
    """Chunks in these states, numbered."""
    return [ChunkState(number, name, None, None) for number, name in enumerate(names)]


@given(LISTS, st.integers(1, 50))
def test_tiles_cover_all_chunks_without_overlap(names: list[str], most: int) -> None:
    """No chunk is missing and none is shown twice, however much is aggregated."""
    shown = tiles(states(names), most=most)
    assert [n for tile in shown for n in range(tile.first, tile.last + 1)] == list(range(len(names)))
    assert len(shown) <= most


@given(LISTS, st.integers(1, 50))
def test_a_failed_chunk_is_visible_in_its_tile(names: list[str], most: int) -> None:
    """One failure among a hundred published chunks is shown; a parked chunk comes before all others."""
    for tile in tiles(states(names), most=most):
        inside = set(names[tile.first : tile.last + 1])
        assert tile.state in inside
        assert (tile.state == "parked") == ("parked" in inside)
        assert (tile.state == "failed") == ("failed" in inside and "parked" not in inside)
        assert (tile.state == "published") == (inside == {"published"})


@given(LISTS)
def test_the_legend_adds_up(names: list[str]) -> None:
    """The numbers of all states are the number of chunks."""
    counted = legend(states(names))
    assert sum(number for _, number in counted) == len(names)
    assert [state for state, _ in counted] == list(CHUNK)


def test_ten_thousand_chunks_become_round_tiles_that_open() -> None:
    """Such a tile has a round number of chunks and opens into single ones."""
    many = states(["published"] * 10_000)
    assert tile_size(10_000) == 20
    assert len(tiles(many)) == 500
    opened = tiles(many, (40, 59))
    assert [tile.first for tile in opened] == list(range(40, 60))


def test_an_open_tile_ends_where_the_table_ends() -> None:
    """If a resnapshot has fewer chunks, the map shows all of them rather than none."""
    few = states(["published"] * 50)
    assert opened(few, None) is None
    assert opened(few, (20, 39)) == (20, 39)
    assert opened(few, (40, 59)) == (40, 49)
    assert note(few, opened(few, (40, 59))) == "Chunks 40 to 49."
    assert opened(few, (60, 79)) is None
    assert opened([], (60, 79)) is None


def test_a_tile_has_a_tooltip() -> None:
    """Also for screen readers, never colour alone."""
    assert Tile(7, 7, "failed", 0.0).title == "Chunk 7: retrying"
    assert Tile(0, 9, "reading", 0.5).title == "Chunks 0–9: 50.0% read, reading"
    assert payload([Tile(0, 9, "reading", 0.51234)]) == [
        [0, 9, STATES.index("reading"), 0.512, "Chunks 0–9: 51.2% read, reading", ""]
    ]
    assert len({style.letter for style in CHUNK.values()}) == len(CHUNK)
    assert set(CHUNK) == set(STATES)


def test_a_map_explains_its_tiles() -> None:
    """One chunk or several per tile, the whole map or a part; an empty map has no note."""
    many = states(["published"] * 10_000)
    assert note(many[:40]) == "A tile is a chunk. Arrow keys move, Enter selects."
    assert note(many).startswith("A tile has 20 chunks")
    assert note(many, (40, 59)) == "Chunks 40 to 59."
    assert note([]) == ""


def test_numbers_may_be_missing_while_a_table_is_split() -> None:
    """The rest of an oversized chunk gets a number beyond those not planned yet.

    The size of a tile counts existing chunks.
    """
    some = [*states(["published"] * 599), ChunkState(12_000, "waiting", None, None)]
    last = tiles(some)[-1]
    assert (last.first, last.last, last.state) == (598, 12_000, "waiting")
    assert [tile.first for tile in tiles(some, (last.first, last.last))] == [598, 12_000]
    assert note(some, (last.first, last.last)) == "Chunks 598 to 12,000."


def test_a_tile_says_bounds_and_splits_when_it_is_hovered() -> None:
    """The bounds of a single chunk, in words; in a tile of several, how many were split."""
    some = [ChunkState(n, "published", None, str(n), str(n + 1)) for n in range(4)]
    assert [tile.more for tile in tiles(some, lineage=lineage([ChunkSplit(1, "2", "3")]), key="id")] == [
        "0 ≤ id < 1",
        "1 ≤ id < 2\nsplit: larger than planned",
        "2 ≤ id < 3",
        "3 ≤ id < 4",
    ]
    two = lineage([ChunkSplit(1, "2", "3", into=(2, 3)), ChunkSplit(3, "4", "5")])
    assert [tile.split for tile in tiles(some, lineage=two)] == [
        "",
        "split into 2, 3",
        "split from 1",
        "split from 1\nsplit: larger than planned",
    ]
    assert [tile.more for tile in tiles(some, most=2, lineage=two)] == ["1 was split", "1 was split"]
    assert [tile.more for tile in tiles(some, most=1, lineage=two)] == ["2 were split"]
    assert note(some * 200, heat=True).startswith("A tile has 2 chunks and shows the highest value.")


def test_brushed_tiles_become_the_chunks_of_a_redump() -> None:
    """Each chunk once, as the form reads them; numbers that no chunk has are left out."""
    some = states(["published"] * 12)
    chosen = within(some, [(7, 9), (3, 3), (9, 9)])
    assert chosen == [3, 7, 8, 9]
    assert numbers_text(chosen) == "3, 7–9"
    assert numbers(numbers_text(chosen)) == chosen
    assert within([*some, ChunkState(900, "published")], [(10, 950)]) == [10, 11, 900]
    assert (within(some, []), numbers_text([])) == ([], "")
