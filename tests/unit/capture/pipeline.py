"""A simulated pipeline: the engine's rules, and everything else naive.

Chunks finish at any time. Each epoch follows docs/correctness.md: freeze the set of reported chunks, take the source's
position P(k+1), read the binlog from min(P(k), A(newly finished)) to P(k+1), and publish what the rule emits. Meanwhile
the source continues. Two readers of the published changes are kept: the change log, applied entry by entry, which must
never contradict itself and equals the source at the end of each epoch; and the mirror, merged now and then.
"""

from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from engine.capture.binlog.emission import EmissionProgress, emission_mask, progress_of, published_images
from engine.capture.chunk.backfill import reduce_changes, without
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.plan.coverage import Chunk, Coverage
from engine.plan.keys import Bound
from tests.unit.capture.world import Key, Order, State, World, inside, limits_of, nobody, rows_of


@dataclass
class Reading:
    """A chunk that is being read: the times of low watermark, SELECT and high watermark, and the rows."""

    low: int
    read: int | None = None
    high: int | None = None
    rows: list[tuple[Key, int]] = field(default_factory=list)


class Pipeline:
    """One table of a world, from the first chunk to the committed mirror."""

    def __init__(self, world: World, bounds: tuple[Bound, ...], rng: Random, *, start: int) -> None:
        self.world, self.bounds, self._rng = world, bounds, rng
        self.ranges = limits_of(bounds)
        self.waiting = list(range(len(self.ranges)))
        self.reading: dict[int, Reading] = {}
        self.reported: dict[int, Reading] = {}
        self.finished: set[int] = set()
        self.coverage = Coverage().split(
            [Chunk(n, limits) for n, limits in enumerate(self.ranges)], (), len(self.ranges)
        )
        self.position = start
        self.log: State = {}
        self.mirror: State = {}
        self.unmerged: list[tuple[int, Key, int]] = []
        self.emitted = 0
        rng.shuffle(self.waiting)

    @property
    def now(self) -> int:
        """The last committed transaction."""
        return len(self.world.states) - 1

    def step_chunk(self) -> None:
        """One step of one chunk: low watermark, SELECT, high watermark with backfill, or report."""
        if self.waiting and (not self.reading or self._rng.random() < 0.4):
            # A low watermark is the end of the last binlog range, or anything up to now that is visible.
            self.reading[self.waiting.pop()] = Reading(self._rng.randrange(self.position, self.now + 1))
            return
        if not self.reading:
            return
        chunk = self._rng.choice(sorted(self.reading))
        reading = self.reading[chunk]
        if reading.read is None:
            reading.read = self.now
        elif reading.high is None:
            # With exact watermarks low and high are the same and there is no backfill.
            reading.high = self.now
            self._backfill(chunk, reading, reading.read)
        else:
            self.reported[chunk] = self.reading.pop(chunk)

    def _backfill(self, chunk: int, reading: Reading, read: int) -> None:
        world, limits = self.world, self.ranges[chunk]
        rows = world.table((k, v) for k, v in world.states[read].items() if inside(k, limits))
        changes = world.changes(world.ends[reading.low], world.ends[reading.high or 0])
        reduced = reduce_changes([changes], world.schema, world.names, world.within(limits))
        reading.rows = rows_of(without(rows, reduced.touched_keys), world.columns) + rows_of(
            pa.concat_tables([world.schema.empty_table(), *reduced.upserts]), world.columns
        )

    def epoch(self, pause: int) -> None:
        """One epoch. `pause`: transactions that the source commits between the freeze and P(k+1)."""
        frozen, self.reported = self.reported, {}
        for _ in range(pause):
            self.world.transact(self._rng)
        upto, ends = self.now, self.world.ends
        exact: dict[int, Order] = {chunk: ends[r.high or 0] for chunk, r in frozen.items()}
        start = min([ends[self.position], *exact.values()])
        progress = progress_of(self.coverage.pieces(), ends[self.position], exact.get)
        for reading in frozen.values():
            self._publish_rows(reading.rows)
        # The range comes in batches that are split anywhere between events.
        cut = self._rng.choice([start, ends[self.position], (ends[upto][0], 4)])
        for low, high in ((start, cut), (cut, ends[upto])) if start < cut < ends[upto] else ((start, ends[upto]),):
            self._publish_changes(low, high, progress)
        self.finished, self.position = self.finished | set(frozen), upto
        self.coverage = self.coverage.finish(frozen)
        self._check_log()

    def _publish_rows(self, rows: list[tuple[Key, int]]) -> None:
        for key, value in rows:
            assert key not in self.log, "a chunk's row is there already"
            assert key not in self.mirror, "the mirror would have a row twice"
            self.log[key] = self.mirror[key] = value

    def _publish_changes(self, low: Order, high: Order, progress: EmissionProgress) -> None:
        changes = self.world.changes(low, high)
        chosen, kinds = published_images(
            changes.fact("kind"), emission_mask(changes, self.world.chunk_key, progress, nobody)
        )
        assert len(chosen) == len(kinds)
        rows = rows_of(changes.take(chosen).rows, self.world.columns)
        before = False
        for kind, (key, value) in zip(kinds.tolist(), rows, strict=True):
            assert (kind == AFTER) == before, "an after-image without its before-image, or the reverse"
            before = kind == BEFORE
            if kind in (INSERT, AFTER):
                assert key not in self.log, "an insert of a row that is there"
                self.log[key] = value
            else:
                assert kind in (BEFORE, DELETE)
                assert self.log.pop(key, None) == value, "a delete of a row that is not there, or was another"
            self.unmerged.append((kind, key, value))
        assert not before
        self.emitted += len(rows)

    def _check_log(self) -> None:
        done = [self.ranges[chunk] for chunk in self.finished]
        source = self.world.states[self.position]
        assert self.log == {k: v for k, v in source.items() if any(inside(k, r) for r in done)}

    def merge(self) -> None:
        """Since the last merge, the newest image of each key replaces or deletes the row."""
        newest = {key: (kind, value) for kind, key, value in self.unmerged}
        for key, (kind, value) in newest.items():
            self.mirror.pop(key, None)
            if kind in (INSERT, AFTER):
                self.mirror[key] = value
        self.unmerged = []
        assert self.mirror == self.log
