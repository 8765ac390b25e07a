"""The rule of emission, alone and in a whole pipeline: nothing is lost, nothing is doubled, whatever finishes when."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.capture.changes import FACTS, Changes
from engine.capture.emission import Progress, emitted, published
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from tests.unit.capture.pipeline import Pipeline
from tests.unit.capture.world import Image, World, inside, limits_of, new_world, random_bounds


def run(rng: Random) -> Pipeline:
    """A pipeline from its start to its end, the source busy all the while."""
    world = new_world(rng, rng.randrange(6))
    pipeline = Pipeline(world, random_bounds(world, rng), rng, start=len(world.states) - 1)
    for _ in range(rng.randrange(5, 40)):
        act = rng.random()
        if act < 0.35:
            world.transact(rng)
        elif act < 0.8:
            pipeline.step_chunk()
        elif act < 0.93:
            pipeline.epoch(rng.randrange(3))
        else:
            pipeline.merge()
    while pipeline.waiting or pipeline.reading:
        pipeline.step_chunk()
        if rng.random() < 0.3:
            world.transact(rng)
        if rng.random() < 0.15:
            pipeline.epoch(rng.randrange(2))
    pipeline.epoch(rng.randrange(3))
    pipeline.epoch(rng.randrange(3))
    pipeline.merge()
    return pipeline


@given(st.randoms(use_true_random=False))
@settings(max_examples=120)
def test_the_mirror_equals_the_source_and_the_log_never_contradicts_itself(rng: Random) -> None:
    """Chunks in any order with any watermarks, epochs and merges at any time, keys that move between chunks (DESIGN 8)."""
    pipeline = run(rng)
    assert pipeline.mirror == pipeline.world.states[-1]


def test_many_pipelines_emit_what_matters() -> None:
    """The simulation reaches the cases that it is for: it emits, and drops, and has lone halves of updates."""
    emissions = [run(Random(seed)).emitted for seed in range(40)]
    assert sum(n > 0 for n in emissions) > 25


@given(st.randoms(use_true_random=False))
def test_an_image_is_emitted_by_the_letter_of_the_rule(rng: Random) -> None:
    """Iff its chunk is finished and its position is after A(chunk)."""
    world = new_world(rng, 8)
    bounds = random_bounds(world, rng)
    chunks = range(len(bounds) + 1)
    finished = frozenset(c for c in chunks if rng.random() < 0.6)
    exact = {c: rng.choice(world.ends) for c in finished if rng.random() < 0.5}
    through = rng.choice(world.ends)
    changes = world.changes((0, 0), world.ends[-1])
    images = [image for images in world.images for image in images]

    def emits(image: Image, done: frozenset[int]) -> bool:
        (chunk,) = [c for c, limits in enumerate(limits_of(bounds)) if inside(image.key, limits)]
        return chunk in done and image.at > exact.get(chunk, through)

    mask = emitted(changes, "k0", Progress(bounds, finished, through, exact))
    assert mask.tolist() == [emits(image, finished) for image in images]
    mask = emitted(changes, "k0", Progress(bounds, None, through, exact))
    assert mask.tolist() == [emits(image, frozenset(chunks)) for image in images]


@given(st.randoms(use_true_random=False))
def test_a_table_without_key_is_one_chunk(rng: Random) -> None:
    """Its changes are tested by position alone."""
    world = new_world(rng, 6)
    through, later = sorted((rng.choice(world.ends), rng.choice(world.ends)))
    changes = world.changes((0, 0), world.ends[-1])
    images = [image for images in world.images for image in images]
    for progress, after in (
        (Progress((), None, through), through),
        (Progress((), None, through, {0: later}), later),
        (Progress((), frozenset({0}), through), through),
    ):
        assert emitted(changes, None, progress).tolist() == [image.at > after for image in images]
    assert not emitted(changes, None, Progress((), frozenset(), through)).any()


@pytest.mark.parametrize(
    ("emit", "kinds"),
    [
        ([True, True], [BEFORE, AFTER]),
        ([True, False], [DELETE]),
        ([False, True], [INSERT]),
        ([False, False], []),
    ],
)
def test_a_lone_half_of_an_update_is_an_insert_or_a_delete(emit: list[bool], kinds: list[int]) -> None:
    """A row that moves out of or into the finished part."""
    kind = np.array([INSERT, BEFORE, AFTER, DELETE, BEFORE, AFTER])
    chosen, result = published(kind, np.array([True, *emit, True, True, True]))
    assert result.tolist() == [INSERT, *kinds, DELETE, BEFORE, AFTER]
    assert chosen.tolist() == [0, *(n for n, e in zip((1, 2), emit, strict=True) if e), 3, 4, 5]
    assert result.dtype == np.int8


def test_positions_compare_across_files() -> None:
    """A later file is later, however small the offset; a file may be larger than 4 GiB."""
    world = World(1, pa.int64(), 3)
    table = world.table([((1,), 1), ((1,), 2)])
    facts = {
        "kind": [0, 0],
        "file": [2, 3],
        "offset": [2**34, 5],
        "ts": [0, 0],
        "tx_a": [0, 0],
        "tx_b": [0, 0],
        "tx_n": [0, 0],
    }
    changes = Changes(table, pa.table(facts, schema=FACTS))
    assert emitted(changes, "k0", Progress((), None, (2, 2**34))).tolist() == [False, True]
    assert emitted(changes, "k0", Progress((), None, (2, 2**34 - 1))).tolist() == [True, True]
    assert emitted(changes, "k0", Progress((), None, (3, 5))).tolist() == [False, False]
