"""A simulated source: keys, transactions, their binlog, and the table after each transaction.

Times count transactions: `states[t]` is the table after t of them, `ends[t]` its position. The engine gets the images
between two times as `RowChanges`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from engine.capture.binlog.row_changes import FACTS, RowChanges
from engine.capture.chunk.backfill import Within
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.decode.schema import Column
from engine.plan.chunks import Range
from engine.plan.keys import Bound, ChunkKey
from engine.plan.places import inside as inside_range

Key = tuple[int, ...]
State = dict[Key, int]
Order = tuple[int, int]

KEY_TYPES = {
    pa.int8(): Column("k0", "tinyint", nullable=False),
    pa.int32(): Column("k0", "int", nullable=False),
    pa.int64(): Column("k0", "bigint", nullable=False),
    pa.decimal128(20, 0): Column("k0", "bigint", nullable=False, unsigned=True),
}


@dataclass(frozen=True)
class Image:
    """One row image: position, kind, row."""

    at: Order
    kind: int
    key: Key
    value: int


@dataclass
class World:
    """A table with a chunk key of `columns` columns; the first one has the type `key_type`."""

    columns: int
    key_type: pa.DataType
    spread: int
    states: list[State] = field(default_factory=lambda: [{}])
    ends: list[Order] = field(default_factory=lambda: [(1, 4)])
    images: list[list[Image]] = field(default_factory=list)
    values: int = 0

    @property
    def names(self) -> list[str]:
        return [f"k{n}" for n in range(self.columns)]

    def within(self, limits: Range) -> Within:
        """Which rows lie in a range."""
        return lambda rows: inside_range(rows, limits, self.chunk_key, nobody)

    @property
    def chunk_key(self) -> ChunkKey:
        others = (Column(name, "int", nullable=False) for name in self.names[1:])
        return ChunkKey((KEY_TYPES[self.key_type], *others), "PRIMARY")

    @property
    def schema(self) -> pa.Schema:
        keys = [pa.field(name, self.key_type if n == 0 else pa.int32()) for n, name in enumerate(self.names)]
        return pa.schema([*keys, pa.field("v", pa.int64())])

    def key(self, rng: Random) -> Key:
        """A key from a small space, so that keys collide."""
        base = 2**63 - 5 if pa.types.is_decimal(self.key_type) else -5
        return base + rng.randrange(self.spread), *(rng.randrange(2) for _ in range(self.columns - 1))

    def transact(self, rng: Random) -> None:
        """Commit a transaction with a few row events; some transactions are empty, some start a new file."""
        state = dict(self.states[-1])
        file, offset = self.ends[-1]
        if rng.random() < 0.1:
            file, offset = file + 1, 4
        images: list[Image] = []
        for _ in range(rng.randrange(4)):
            offset += rng.randrange(1, 50)
            for _ in range(rng.choice([1, 1, 1, 3])):
                images += self._row(state, (file, offset), rng)
        self.images.append(images)
        self.states.append(state)
        # A server ends a transaction with an event of its own; the rule must not rely on it.
        self.ends.append((file, offset + rng.choice([0, 0, 7])))

    def _row(self, state: State, at: Order, rng: Random) -> list[Image]:
        self.values += 1
        present = sorted(state)
        act = rng.choice(["insert", "insert", "update", "move", "delete", "resnapshot"])
        if act == "insert" or not present:
            key = self.key(rng)
            if key in state:
                return []
            state[key] = self.values
            return [Image(at, INSERT, key, self.values)]
        key = rng.choice(present)
        old = state.pop(key)
        if act == "delete":
            return [Image(at, DELETE, key, old)]
        if act == "resnapshot":
            state[key] = self.values
            return [Image(at, DELETE, key, old), Image(at, INSERT, key, self.values)]
        target = self.key(rng) if act == "move" else key
        if target in state:
            target = key
        state[target] = self.values
        return [Image(at, BEFORE, key, old), Image(at, AFTER, target, self.values)]

    def changes(self, after: Order, upto: Order) -> RowChanges:
        """The images of the binlog in `(after, upto]`."""
        chosen = [image for images in self.images for image in images if after < image.at <= upto]
        rows = self.table((image.key, image.value) for image in chosen)
        facts = [
            {"kind": i.kind, "file": i.at[0], "offset": i.at[1], "ts": 0, "tx_source": 0, "tx_n": 0} for i in chosen
        ]
        return RowChanges(rows, pa.Table.from_pylist(facts, schema=FACTS))

    def table(self, rows: Iterable[tuple[Key, int]]) -> pa.Table:
        """Rows as an Arrow table of the engine."""
        listed = list(rows)
        columns: list[list[Any]] = [[key[n] for key, _ in listed] for n in range(self.columns)]
        if pa.types.is_decimal(self.key_type):
            columns[0] = [Decimal(k) for k in columns[0]]
        arrays = [pa.array(c, f.type) for c, f in zip([*columns, [v for _, v in listed]], self.schema, strict=True)]
        return pa.table(arrays, schema=self.schema)


def rows_of(table: pa.Table, columns: int) -> list[tuple[Key, int]]:
    """The inverse of `World.table`."""
    lists = [column.to_pylist() for column in table.columns]
    keys = zip(*lists[:columns], strict=True)
    return [(tuple(int(k) for k in key), value) for key, value in zip(keys, lists[columns], strict=True)]


def inside(key: Key, limits: Range) -> bool:
    """Whether a key lies in a chunk, by definition."""
    return not (limits.lower and _below(key, limits.lower)) and (limits.upper is None or _below(key, limits.upper))


def _below(key: Key, bound: Bound) -> bool:
    return key[: len(bound)] < tuple(map(int, bound))


def limits_of(bounds: Sequence[Bound]) -> list[Range]:
    """The ranges of all chunks."""
    return [Range(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]


def new_world(rng: Random, transactions: int) -> World:
    """A world with some history."""
    world = World(rng.choice([1, 1, 2, 3]), rng.choice(list(KEY_TYPES)), rng.randrange(2, 14))
    for _ in range(transactions):
        world.transact(rng)
    return world


def random_bounds(world: World, rng: Random) -> tuple[Bound, ...]:
    """Random bounds with one or several columns, some beyond all keys."""
    base = world.key(Random(0))[0]
    span = range(base - 20, base + 20) if not pa.types.is_decimal(world.key_type) else range(base, base + 30)
    firsts = rng.choices(span, k=rng.randrange(6))
    bounds = {(first, *(rng.randrange(2) for _ in range(rng.randrange(world.columns)))) for first in firsts}
    return tuple(tuple(map(str, bound)) for bound in sorted(bounds))


def nobody(column: Column, values: Sequence[str], bounds: Sequence[str]) -> Any:
    """A server that must not be asked."""
    raise AssertionError(f"{column.name} is compared by Arrow")
