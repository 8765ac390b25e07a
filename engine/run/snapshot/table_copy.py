"""One table that is being copied: what of it is cut, what waits, how fast it goes, whose turn it is, what is finished."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine import clock
from engine.capture.files import DataFile
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reports import ChunkReport
from engine.decode.schema import Table
from engine.events import TablePlanned
from engine.plan.chunks import Plan, Range, text
from engine.plan.coverage import Chunk, Coverage, Cut
from engine.plan.keys import Bound, ChunkKey
from engine.run.state_machines import CHUNK, START
from engine.source.positions import Position

KEYS_A_CHUNK = 2000
PARKED_IN_ROW = 8
"""A table of which so many chunks were parked, with none read in between, is at fault itself."""
LISTED_CHUNKS = 10_000
"""An even plan of so many chunks is written to the journal whole, when it is made."""
ROWS_PER_S = 400_000
"""How fast a reader reads until it is measured."""
_CHUNK_S = 0.005
"""What a chunk takes however few its rows: a few statements."""


def reported_whole(plan: Plan) -> bool:
    """Whether all chunks are written to the journal when the plan is made."""
    return plan.strategy != "uneven" and plan.estimated_chunks <= LISTED_CHUNKS


def planned(plan: Plan) -> TablePlanned:
    """The plan, for the journal."""
    ranges = plan.even_ranges() if reported_whole(plan) else ()
    return TablePlanned(**plan.summary(), chunks=[[text(limits.lower), text(limits.upper)] for limits in ranges])


@dataclass
class Trial:
    """A chunk that failed."""

    failures: int = 0
    """The chunk's own failures, in a row."""
    among: int = 1
    """With how many other chunks it may be read the next time."""
    known: bool = False
    """Whether it was parked before."""


@dataclass
class TableCopy:
    """One table's copy, or the parts of it that are redumped."""

    table: Table
    plan: Plan
    folder: Path
    rank: int
    """The operator's priority; 0 comes first."""
    coverage: Coverage
    projection: Projection = WHOLE_TABLE
    """What of the table is published."""
    redump: str | None = None
    """The command that asked to redump these ranges of a published table, or `keys` of it."""
    keys: tuple[Bound, ...] = ()
    """`KEYS_A_CHUNK` of them make a chunk."""
    waiting: deque[Chunk] = field(default_factory=deque)
    uncommitted: dict[int, Chunk] = field(default_factory=dict)
    """The chunks that were cut since the last commit, by number."""
    states: dict[int, str] = field(default_factory=dict)
    """Of the chunks that are cut and not committed, by number (`state_machines.CHUNK`)."""
    changed: bool = False
    """Whether something was cut since the last commit."""
    reported_complete: bool = field(init=False)
    """Whether the journal has all chunks of it."""
    trials: dict[int, Trial] = field(default_factory=dict)
    """The chunks that failed, by number."""
    resting: dict[int, float] = field(default_factory=dict)
    """The chunks that wait for their next try, with its time (`clock.monotonic_s`)."""
    parked: set[int] = field(default_factory=set)
    """The chunks that are not tried again."""
    parked_in_row: int = 0
    under_way: int = 0
    failures: int = 0
    """In a row, of the table as a whole."""
    retry_at: float = 0.0
    changed_s: float = math.inf
    """When a read first found that the table had changed (`clock.monotonic_s`)."""
    dropped: bool = False
    """Its chunks are of no use any more."""
    seconds: float = 0.0
    """That readers have spent on it."""
    read: int = 0
    """Rows that were read."""

    def __post_init__(self) -> None:
        self.reported_complete = reported_whole(self.plan)
        self.key: ChunkKey | None = self.plan.key(self.table)
        self.waiting.extend(Chunk(number, limits) for number, limits in sorted(self.coverage.pending.items()))
        self.on("cut", self.coverage.pending)

    def on(self, event: str, numbers: Iterable[int]) -> None:
        """This happened to these chunks. Raises IllegalEventError."""
        self.states.update({n: CHUNK.after(self.states.get(n, START), event) for n in numbers})

    def listed(self, chunk: Chunk) -> bool:
        """Whether the journal has known the chunk, as it is, since the plan was made."""
        return reported_whole(self.plan) and (
            chunk.number < self.plan.estimated_chunks and chunk.limits == self.plan.even_range(chunk.number)
        )

    @property
    def ready(self) -> bool:
        return not self.dropped and not self.stuck and self.retry_at <= clock.monotonic_s()

    @property
    def stuck(self) -> bool:
        """Whether one chunk after the other was parked, so that no more of it is tried."""
        return self.parked_in_row >= PARKED_IN_ROW

    @property
    def to_do(self) -> bool:
        """Whether something of it waits to be read or cut."""
        return not self.dropped and not self.stuck and bool(self.waiting or self.resting or self.coverage.uncut)

    @property
    def fresh(self) -> bool:
        """Whether nothing of it is cut: its first chunk is wanted at once."""
        return not self.coverage.done and not self.coverage.pending

    @property
    def each_s(self) -> float:
        """Seconds that a chunk takes: measured, or guessed from its rows."""
        if self.read:
            return max(self.seconds / self.read, 1e-3)
        return _CHUNK_S + min(self.plan.chunk_rows, max(self.plan.approx_rows, 1)) / ROWS_PER_S

    @property
    def worth_s(self) -> float:
        """Seconds that all waiting chunks take."""
        return len(self.waiting) * self.each_s

    def named(self, number: int) -> tuple[Bound, ...]:
        """The keys that are chunk `number`."""
        return self.keys[number * KEYS_A_CHUNK : (number + 1) * KEYS_A_CHUNK]

    def next_chunks(self, budget_s: float, readers: int, *, share: bool) -> list[Chunk]:
        """The next chunks, worth `budget_s`. share: leave some for the other readers, fewer to each towards the end."""
        fair = max(1, len(self.waiting) // (2 * readers)) if share else len(self.waiting)
        count = self._together(min(max(1, round(budget_s / self.each_s)), fair))
        chunks = [self.waiting.popleft() for _ in range(count)]
        self.under_way += count
        self.on("assigned", [chunk.number for chunk in chunks])
        return chunks

    def _together(self, count: int) -> int:
        """How many of the next chunks may be read in one group: those that failed only among few others."""
        for before, chunk in enumerate(self.waiting):
            if before >= count:
                break
            if trial := self.trials.get(chunk.number):
                count = min(count, max(trial.among, before))
        return count

    def rest(self, number: int, until_s: float) -> None:
        """A chunk that failed is not to be tried before that time."""
        self.resting[number] = until_s

    def wake(self) -> None:
        """What has rested for long enough comes next."""
        now_s = clock.monotonic_s()
        due = sorted((n for n, until_s in self.resting.items() if until_s <= now_s), reverse=True)
        for number in due:
            del self.resting[number]
            self.waiting.appendleft(Chunk(number, self.coverage.pending[number]))

    def park(self, number: int) -> None:
        """A chunk that failed is tried no more."""
        self.on("parked", [number])
        self.parked.add(number)

    def try_again(self) -> None:
        """What is parked is a chunk like any other again."""
        self.on("tried again", self.parked)
        self.waiting.extend(Chunk(number, self.coverage.pending[number]) for number in sorted(self.parked))
        for number in self.parked:
            self.trials[number] = Trial(known=True)
        self.parked, self.parked_in_row = set(), 0

    def turn(self) -> tuple[int, int, float]:
        """Whose turn it is, smallest first: priority, then the fewest chunks under way, then the most to do."""
        left = self.coverage.total(self.plan.estimated_chunks) - self.coverage.done
        return self.rank, self.under_way, -left * self.each_s

    def take(self, cut: Cut) -> list[Chunk]:
        """Take over what was cut; the new chunks."""
        self.coverage, chunks = self.coverage.after(cut)
        self.on("cut", [chunk.number for chunk in chunks])
        self.waiting.extend(chunks)
        self._note(chunks)
        return chunks

    def shorten(self, number: int, limits: Range) -> list[Chunk]:
        """A chunk was read up to a nearer bound; the chunk as it is now."""
        self.on("split", [number])
        self.coverage = self.coverage.shortened(number, limits)
        chunk = Chunk(number, limits)
        self._note([chunk])
        return [chunk]

    def _note(self, chunks: Iterable[Chunk]) -> None:
        self.changed = True
        self.uncommitted.update({chunk.number: chunk for chunk in chunks})

    def put_back(self, numbers: Iterable[int]) -> None:
        """These chunks were assigned and not read."""
        if not self.dropped:
            back = [Chunk(number, self.coverage.pending[number]) for number in sorted(numbers)]
            self.waiting.extendleft(reversed(back))
            self.on("put back", [chunk.number for chunk in back if self.states[chunk.number] == "reading"])

    def lost(self, number: int) -> None:
        """The files of a finished chunk are gone before it was committed."""
        self.on("lost", [number])
        self.waiting.appendleft(Chunk(number, self.coverage.pending[number]))

    def read_one(self, report: ChunkReport) -> None:
        """A chunk was read: the pace."""
        self.on("finished", [report.chunk])
        self.seconds += sum(report.timings.values())
        self.read += 1
        self.failures = self.parked_in_row = 0

    def committed(self, coverage: Coverage) -> None:
        """An epoch was committed, with everything that was cut and the chunks that are no longer pending."""
        self.coverage, self.uncommitted, self.changed = coverage, {}, False
        if done := [number for number in self.states if number not in coverage.pending]:
            self.on("committed", done)
            self.states = {number: self.states[number] for number in coverage.pending}

    def drop(self) -> None:
        """Read no more of it."""
        self.on("dropped", self.states)
        self.states.clear()
        self.dropped = True
        self.waiting.clear()
        self.resting.clear()
        self.parked.clear()


@dataclass(frozen=True)
class Finished:
    """A chunk that was read and waits for the next epoch."""

    report: ChunkReport
    redump: str | None = None
    """The command that it was redumped for."""
    keys: tuple[Bound, ...] = ()
    """The identities of its rows, where the command names rows."""

    @property
    def table(self) -> str:
        return self.report.table

    @property
    def identity(self) -> tuple[str, int]:
        """Its table and number."""
        return self.table, self.report.chunk

    @property
    def limits(self) -> Range:
        """What was read of it."""
        return self.report.limits

    @property
    def high(self) -> Position:
        """The high watermark, at which its rows are exact."""
        return self.report.high

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self.report.files

    @property
    def ghosts(self) -> tuple[DataFile, ...]:
        """Of a redump: the files of what the mirror has beside the chunk's rows."""
        return self.report.ghosts
