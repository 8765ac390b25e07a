"""The heat map: each chunk has the colour of its value, on a scale that an operator can read without colours."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.live.view import heat
from app.live.view.heat import COLOURINGS, MOST_STEPS, Colouring, Scale
from app.live.view.tiles import payload, tiles
from engine.history.chunk_queries import ChunkState
from engine.history.chunk_values import MEASURES
from tests.unit.app.support import NOW

HEAT = [one for one in COLOURINGS.values() if one is not None]


def scale(name: str, *values: float | None) -> Scale:
    """The scale of published chunks with these values."""
    return heat.scale([ChunkState(n, "published", value) for n, value in enumerate(values)], colouring(name), NOW)


def colouring(name: str) -> Colouring:
    """The colouring with that label."""
    found = COLOURINGS[name]
    assert found is not None
    return found


@pytest.mark.parametrize("one", HEAT, ids=lambda one: one.label)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_every_value_is_in_its_step(one: Colouring, values: list[float]) -> None:
    """A scale has at most five ascending steps; the value is at least its step's bound and below the next one."""
    found = heat.scale([ChunkState(n, "published", value) for n, value in enumerate(values)], one, NOW)
    assert 1 <= len(found.bounds) <= MOST_STEPS
    assert list(found.bounds) == sorted(set(found.bounds))
    numbers = one.numbers(values, NOW)
    for number in numbers:
        step = found.step(number)
        assert step is not None
        assert found.bounds[step] <= number
        assert number < (*found.bounds, math.inf)[step + 1]
    assert len({found.digit(step) for step in range(len(found.bounds))}) == len(found.bounds)
    shades = [found.shade(step) for step in range(len(found.bounds))]
    assert shades == sorted(set(shades))
    assert len(found.bounds) >= 3 or max(numbers) < one.ladder[1]


def test_the_scale_is_logarithmic_and_round() -> None:
    """From milliseconds to hours in five steps; neighbours are added to a narrow range."""
    assert scale("Duration", 0.3, 1.9).bounds == (0.2, 0.5, 1.0)
    assert scale("Duration", 1.0).bounds == (1.0, 2.0, 5.0)
    assert scale("Changes in the window", 1, 10, 90_000).bounds == (1, 10, 100, 1000, 10_000)
    assert scale("Attempts", 1, 1, 3).bounds == (1, 2, 3)
    labels = [label for _, _, label, _ in scale("Watermark gap", 1_000, 90_000_000).stops()]
    assert labels == ["1 KB", "10 KB", "100 KB", "1 MB", "10 MB"]


def test_zero_is_a_step_of_its_own() -> None:
    """A chunk whose watermarks are equal is not mixed with one whose gap is a byte."""
    gaps = scale("Watermark gap", 0, 120, 4_000)
    assert list(gaps.bounds) == [0, 100, 500, 2000]
    assert [(digit, shade, text) for digit, shade, _, text in gaps.stops()] == [
        ("0", 0, "0"),
        ("1", 1, "100 B to below 500 B"),
        ("2", 3, "500 B to below 2 KB"),
        ("3", 5, "2 KB and more"),
    ]
    assert scale("Changes in the window", 0, 0).bounds == (0,)
    assert scale("Duration", 0.0001, 0.002).stops()[0][3] == "0 s to below 1 ms"


def test_chunks_of_the_planned_size_have_one_colour() -> None:
    """Planned rows are round; a few rows more or less must not look like a difference."""
    for planned in (1000, 5000, 10_000, 20_000, 50_000, 100_000):
        rows = scale("Rows", planned - 40, planned, planned + 40)
        assert len({rows.step(value) for value in (planned - 40, planned, planned + 40)}) == 1


def test_the_oldest_chunk_counts() -> None:
    """An instant becomes an age; one in the future, by another clock, is no age at all."""
    instants = [NOW.timestamp() - 7200, NOW.timestamp() - 3, NOW.timestamp() + 5]
    ages = scale("Age", *instants)
    assert ages.value(instants) == 7200
    assert ages.value([instants[2]]) == 0
    assert colouring("Age").text(7200) == "2 h old"


def test_every_tile_says_its_value_with_its_unit() -> None:
    """Or why it has none: never by colour alone."""
    states = [ChunkState(0, "published", 1.2), ChunkState(1, "published"), ChunkState(2, "waiting")]
    shown = tiles(states, scale=heat.scale(states, colouring("Duration"), NOW))
    assert [tile.title for tile in shown] == [
        "Chunk 0: published, 1.2 s",
        "Chunk 1: published, duration unknown",
        "Chunk 2: waiting, not read yet",
    ]
    assert [tile.step for tile in shown] == [0, None, None]
    assert [tuple(one[-2:]) for one in payload(shown, heat.scale(states, colouring("Duration"), NOW))] == [
        ("1", 1),
        (None, None),
        (None, None),
    ]
    texts = [one.text(1) for one in HEAT]
    assert texts == ["1.0 s", "1 row", "1 B of binlog", "1 change in the window", "1 attempt", "1.0 s old"]
    assert colouring("Watermark gap").text(0) == "no watermark gap"
    assert colouring("Age").missing("finished") == "not published yet"
    assert colouring("Attempts").missing("waiting") == "not tried yet"


def test_a_tile_of_several_chunks_shows_the_highest_value() -> None:
    """One slow chunk among a hundred is visible; the scale is that of the whole table, also in an opened tile."""
    states = [ChunkState(n, "published", 50.0 if n == 7 else 0.4) for n in range(20)]
    found = heat.scale(states, colouring("Duration"), NOW)
    shown = tiles(states, most=2, scale=found)
    assert [tile.title for tile in shown] == [
        "Chunks 0–9: 100% read, published, at most 50 s",
        "Chunks 10–19: 100% read, published, at most 0.4 s",
    ]
    assert shown[0].step == len(found.bounds) - 1
    assert tiles(states, (0, 9), scale=found)[7].step == shown[0].step


def test_chunks_without_a_value_are_counted_apart() -> None:
    """Before the first read there is no scale, and the heading says so."""
    assert scale("Rows", None, 5, None).note == "2 chunks without a value, shown by state"
    empty = scale("Rows", None)
    assert (empty.bounds, empty.stops(), empty.title) == ((), [], "Rows, no chunk has a value yet")
    assert scale("Rows", 5).note == ""
    assert scale("Rows", 5).title == "Rows, logarithmic scale"


def test_the_journals_have_every_value() -> None:
    """The control offers what the index can answer, and all of it."""
    assert {one.measure for one in HEAT} == set(MEASURES)
    assert next(iter(COLOURINGS)) == "State"
