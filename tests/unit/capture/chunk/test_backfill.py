"""A chunk that is read in any state between its watermarks is, after the backfill, the chunk at the high watermark."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.capture.binlog.row_changes import concatenate, empty
from engine.capture.chunk.backfill import last_of_each, reduce_changes, without
from engine.decode.schema import Column
from engine.journal.event_fields import Backfill
from engine.plan.chunks import WHOLE, Range
from engine.plan.keys import ChunkKey
from engine.plan.places import inside as inside_range
from engine.plan.places import place
from tests.support.depth import depth
from tests.unit.capture.world import inside, limits_of, new_world, nobody, random_bounds, rows_of


@given(st.randoms(use_true_random=False))
@settings(max_examples=depth(25, 600))
def test_the_chunk_is_exact_at_its_high_watermark(rng: Random) -> None:
    """Read at any time between the watermarks, whatever was inserted, moved and deleted meanwhile."""
    world = new_world(rng, rng.randrange(1, 14))
    low, read, high = sorted(rng.randrange(len(world.states)) for _ in range(3))
    for limits in limits_of(random_bounds(world, rng)):
        rows = world.table((k, v) for k, v in world.states[read].items() if inside(k, limits))
        changes = world.changes(world.ends[low], world.ends[high])
        reduced = reduce_changes([changes], world.schema, world.names, world.within(limits))
        result = rows_of(without(rows, reduced.touched_keys), world.columns) + rows_of(
            pa.concat_tables([world.schema.empty_table(), *reduced.upserts]), world.columns
        )
        assert len(result) == len(dict(result))
        assert dict(result) == {k: v for k, v in world.states[high].items() if inside(k, limits)}


@given(st.randoms(use_true_random=False))
def test_the_rows_may_come_in_pieces(rng: Random) -> None:
    """Blocks of the SELECT and of the binlog are applied one by one, with the same result.

    However many are buffered.
    """
    world = new_world(rng, rng.randrange(1, 10))
    middle = rng.randrange(len(world.states))
    parts = [world.changes(world.ends[0], world.ends[middle]), world.changes(world.ends[middle], world.ends[-1])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.capture.chunk.backfill._WAITING_ROWS", rng.choice([0, 3, 1 << 16]))
        pieces = [part.take(np.array([n])) for part in parts for n in range(len(part))] if rng.random() < 0.5 else parts
        reduced = reduce_changes(pieces, world.schema, world.names, world.within(WHOLE))
    read = list(world.states[middle].items())
    cut = rng.randrange(len(read) + 1)
    kept = [
        row
        for piece in (read[:cut], read[cut:])
        for row in rows_of(without(world.table(piece), reduced.touched_keys), world.columns)
    ]
    assert (
        dict(kept + rows_of(pa.concat_tables([world.schema.empty_table(), *reduced.upserts]), world.columns))
        == world.states[-1]
    )
    counts = reduced.counts
    assert counts.changes == sum(len(images) for images in world.images)
    assert counts.deleted + counts.upserted == reduced.touched_keys.num_rows


@given(st.randoms(use_true_random=False))
def test_a_table_that_is_one_chunk_has_no_chunk_key(rng: Random) -> None:
    """Every change is in the chunk, so nothing is compared."""
    world = new_world(rng, rng.randrange(1, 10))
    changes = world.changes(world.ends[0], world.ends[-1])
    reduced = reduce_changes([changes], world.schema, world.names, None)
    assert (
        dict(rows_of(pa.concat_tables([world.schema.empty_table(), *reduced.upserts]), world.columns))
        == world.states[-1]
    )
    assert reduced.changes == len(changes)


@given(st.randoms(use_true_random=False))
def test_a_key_lies_in_exactly_one_chunk(rng: Random) -> None:
    """Placing a key among bounds agrees with testing each range."""
    world = new_world(rng, 6)
    bounds = random_bounds(world, rng)
    keys = [world.key(rng) for _ in range(20)]
    rows = world.table((key, 0) for key in keys)
    numbers = place(rows, bounds, world.chunk_key, nobody)
    for number, limits in enumerate(limits_of(bounds)):
        naive = [inside(key, limits) for key in keys]
        assert inside_range(rows, limits, world.chunk_key, nobody).tolist() == naive == (numbers == number).tolist()


def test_null_keys_belong_to_the_range_that_is_open_below() -> None:
    """With a nullable chunk key, rows with NULL are in the first chunk."""
    rows = pa.table({"k": pa.array([None, 1, 9], pa.int32())})
    key = ChunkKey((Column("k", "int"),), "k")
    assert inside_range(rows, Range(None, ("5",)), key, nobody).tolist() == [True, True, False]
    assert inside_range(rows, Range(("5",), None), key, nobody).tolist() == [False, False, True]
    assert inside_range(rows, WHOLE, key, nobody).tolist() == [True, True, True]
    assert place(rows, [("5",)], key, nobody).tolist() == [0, 0, 1]
    assert place(rows, [("-5",)], key, nobody).tolist() == [0, 1, 1]


def test_nothing_is_no_error() -> None:
    """Without changes, without rows, or without both."""
    world = new_world(Random(1), 5)
    nothing = reduce_changes([empty(world.schema)], world.schema, world.names, world.within(Range(("0",), ("5",))))
    assert nothing.counts == Backfill()
    rows = world.table(world.states[-1].items())
    assert without(rows, nothing.touched_keys).equals(rows)
    touched = world.table([((1,) * world.columns, 1)]).select(world.names)
    assert without(world.schema.empty_table(), touched).num_rows == 0
    assert concatenate([], world.schema).rows.num_rows == 0


@given(st.lists(st.tuples(st.binary(max_size=2), st.sampled_from(["a", "A", "á", ""])), max_size=30))
def test_keys_are_identified_by_their_bytes(keys: list[tuple[bytes, str]]) -> None:
    """Binary and string keys, one or two columns, with zero bytes and empty strings."""
    names = ("b", "s")
    table = pa.table(
        [pa.array([k[0] for k in keys], pa.binary()), pa.array([k[1] for k in keys], pa.string())], names=names
    )
    last = {key: n for n, key in enumerate(keys)}
    assert last_of_each(table).tolist() == sorted(last.values())
    gone = keys[::3]
    touched = table.take(pa.array(sorted({keys.index(key) for key in gone}), pa.int64()))
    assert without(table, touched).num_rows == sum(key not in gone for key in keys)
    single = without(table, touched.select(["s"]))
    assert single.num_rows == sum(key[1] not in {s for _, s in gone} for key in keys)
