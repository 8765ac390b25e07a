"""The rule of emission, alone and in a simulated pipeline.

No row is lost or doubled, in whatever order chunks finish.
"""

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.capture.binlog.emission import EmissionProgress, emission_mask, progress_of, published_images
from engine.capture.binlog.row_changes import FACTS, RowChanges
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.decode.schema import Column
from engine.plan.chunks import Range
from engine.plan.coverage import Piece
from engine.plan.keys import ChunkKey
from tests.support.depth import depth
from tests.unit.capture.pipeline import Pipeline
from tests.unit.capture.world import Image, Order, World, inside, limits_of, new_world, nobody, random_bounds


def run(rng: Random) -> Pipeline:
    """Run a pipeline from start to end, with a source that is always busy."""
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
@settings(max_examples=depth(25, 600))
def test_the_mirror_equals_the_source_and_the_log_never_contradicts_itself(rng: Random) -> None:
    """Chunks in any order with any watermarks, epochs and merges at any time, keys that move between chunks."""
    pipeline = run(rng)
    assert pipeline.mirror == pipeline.world.states[-1]


def test_many_pipelines_emit_what_matters() -> None:
    """The simulation covers its purpose: changes are emitted and dropped, and updates are split."""
    emissions = [run(Random(seed)).emitted for seed in range(40)]
    assert sum(n > 0 for n in emissions) > 25


@given(st.randoms(use_true_random=False))
def test_an_image_is_emitted_by_the_letter_of_the_rule(rng: Random) -> None:
    """If and only if its chunk is finished, now or earlier, and its position is behind A(chunk)."""
    world = new_world(rng, 8)
    ranges = limits_of(random_bounds(world, rng))
    # A: None for what is not finished, the end of the last epoch for what was finished before, else the chunk's own.
    through, ends = rng.choice(world.ends), world.ends
    pieces, exact = [], list[Order | None]()
    newly: dict[int, Order] = {}
    for n, limits in enumerate(ranges):
        act = rng.choice(["before", "newly", "pending", "uncut"])
        if act == "newly":
            newly[n] = rng.choice(ends)
        pieces.append(Piece(limits, finished=act == "before", number=n if act in ("newly", "pending") else None))
        exact.append(through if act == "before" else newly.get(n))
    progress = progress_of(pieces, through, newly.get)
    changes = world.changes((0, 0), ends[-1])
    images = [image for images in world.images for image in images]

    def emits(image: Image) -> bool:
        (order,) = [a for a, limits in zip(exact, ranges, strict=True) if inside(image.key, limits)]
        return order is not None and image.at > order

    assert emission_mask(changes, world.chunk_key, progress, nobody).tolist() == list(map(emits, images))
    assert len(progress.exact_positions) == len(progress.bounds) + 1 == 1 + sum(a != b for a, b in pairwise(exact))


def test_neighbours_that_are_exact_alike_are_one_run() -> None:
    """What a binlog range knows of a table does not grow with the number of chunks."""
    limits = limits_of([(str(n),) for n in range(1, 7)])
    pieces = [
        Piece(limits[0], finished=True),
        Piece(limits[1], number=1),
        Piece(limits[2], number=2),
        Piece(limits[3]),
        Piece(limits[4], number=4),
        Piece(limits[5], number=5),
        Piece(limits[6], finished=True),
    ]
    progress = progress_of(pieces, (7, 7), {1: (7, 7), 4: (8, 8), 5: (8, 8)}.get)
    assert progress == EmissionProgress((("2",), ("4",), ("6",)), ((7, 7), None, (8, 8), (7, 7)))
    assert progress_of(pieces, (7, 7), dict.fromkeys((1, 2), (7, 7)).get).exact_positions == ((7, 7), None, (7, 7))


def test_the_server_is_not_asked_while_nothing_is_finished_or_all_is() -> None:
    """Changes need not be placed then, whatever the key."""
    world = new_world(Random(3), 9)
    changes = world.changes((0, 0), world.ends[-1])
    strange = ChunkKey((Column("k0", "varchar", charset="utf8mb4", collation="x"),), "PRIMARY")
    pending = progress_of([Piece(Range(None, ("a",)), number=0), Piece(Range(("a",), None))], (1, 4), lambda _: None)
    assert not emission_mask(changes, strange, pending, nobody).any()
    assert emission_mask(changes, strange, EmissionProgress((), ((1, 4),)), nobody).all()
    halves = EmissionProgress((("a",), ("b",)), (None, (1, 4), None))
    with pytest.raises(AssertionError, match="compared by Arrow"):
        emission_mask(RowChanges(pa.table({"k0": ["x"] * len(changes)}), changes.facts), strange, halves, nobody)


@given(st.randoms(use_true_random=False))
def test_a_table_without_key_is_one_chunk(rng: Random) -> None:
    """Only the position decides; no change is emitted before the chunk is finished."""
    world = new_world(rng, 6)
    through = rng.choice(world.ends)
    changes = world.changes((0, 0), world.ends[-1])
    images = [image for images in world.images for image in images]
    assert emission_mask(changes, None, EmissionProgress((), (through,)), nobody).tolist() == [
        i.at > through for i in images
    ]
    assert not emission_mask(changes, None, EmissionProgress((), (None,)), nobody).any()


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
    """For a row that moves into or out of the finished part."""
    kind = np.array([INSERT, BEFORE, AFTER, DELETE, BEFORE, AFTER])
    chosen, result = published_images(kind, np.array([True, *emit, True, True, True]))
    assert result.tolist() == [INSERT, *kinds, DELETE, BEFORE, AFTER]
    assert chosen.tolist() == [0, *(n for n, e in zip((1, 2), emit, strict=True) if e), 3, 4, 5]
    assert result.dtype == np.int8


def test_positions_compare_across_files() -> None:
    """A later file is later, however small the offset; a file may exceed 4 GiB."""
    world = World(1, pa.int64(), 3)
    table = world.table([((1,), 1), ((1,), 2)])
    facts = {
        "kind": [0, 0],
        "file": [2, 3],
        "offset": [2**34, 5],
        "ts": [0, 0],
        "tx_source": [0, 0],
        "tx_n": [0, 0],
    }
    changes = RowChanges(table, pa.table(facts, schema=FACTS))
    assert emission_mask(changes, world.chunk_key, EmissionProgress((), ((2, 2**34),)), nobody).tolist() == [
        False,
        True,
    ]
    assert emission_mask(changes, world.chunk_key, EmissionProgress((), ((2, 2**34 - 1),)), nobody).tolist() == [
        True,
        True,
    ]
    assert emission_mask(changes, world.chunk_key, EmissionProgress((), ((3, 5),)), nobody).tolist() == [False, False]
