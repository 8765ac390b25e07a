"""The state of one table that is being copied: split-off and waiting chunks, pace, turn, finished chunks."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.base import clock
from engine.base.errors import SpecError
from engine.capture.captured_tables import CapturedTables
from engine.capture.files import DataFile
from engine.capture.landing import MirrorReader, NoMirror
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reports import ChunkReport
from engine.decode.schema import Table
from engine.destination.registry import tables_of
from engine.journal.events import TablePlanned
from engine.pipeline.state_machines import CHUNK, START
from engine.plan.chunks import Plan, Range, text
from engine.plan.coverage import Chunk, Coverage, Split
from engine.plan.keys import Bound, ChunkKey
from engine.source.positions import Position
from engine.spec.further_sinks import sink_named
from engine.spec.settings import Spec
from engine.store.folder import Folder

KEYS_A_CHUNK = 2000
PARKED_IN_ROW = 8
"""When this many chunks in a row are parked, with none read in between, the table itself is at fault."""
LISTED_CHUNKS = 10_000
"""Up to this many chunks, the journal gets all chunks of an even plan at once."""
ROWS_PER_S = 400_000
"""The assumed reading speed until it is measured."""
_CHUNK_S = 0.005
"""Seconds per chunk regardless of its rows: a few statements."""


def reported_whole(plan: Plan) -> bool:
    """Whether the journal gets all chunks at once with the plan."""
    return plan.strategy != "uneven" and plan.estimated_chunks <= LISTED_CHUNKS


def planned(plan: Plan) -> TablePlanned:
    """The plan, for the journal."""
    ranges = plan.even_ranges() if reported_whole(plan) else ()
    return TablePlanned(**plan.summary(), chunks=[[text(limits.lower), text(limits.upper)] for limits in ranges])


@dataclass
class Trial:
    """The failures of a chunk."""

    failures: int = 0
    """The chunk's own failures in a row."""
    among: int = 1
    """The most chunks that may share its next group."""
    was_parked: bool = False
    """Whether an earlier run parked it."""


@dataclass
class TableCopy:
    """One table's copy, or its redumped parts."""

    table: Table
    plan: Plan
    folder: Folder
    rank: int
    """The operator's priority; 0 comes first."""
    coverage: Coverage
    projection: Projection = WHOLE_TABLE
    """The published columns and rows."""
    redump: str | None = None
    """The command that redumps these ranges of a published table, or its `keys`."""
    keys: tuple[Bound, ...] = ()
    """Redumped keys, `KEYS_A_CHUNK` per chunk."""
    mirrors: tuple[MirrorReader, ...] = ()
    """For a redump: they read back the destinations whose ghosts are deleted."""
    waiting: deque[Chunk] = field(default_factory=deque)
    uncommitted: dict[int, Chunk] = field(default_factory=dict)
    """The chunks split off or shortened since the last commit, by number."""
    states: dict[int, str] = field(default_factory=dict)
    """States of the split-off chunks that are not committed, by number (`state_machines.CHUNK`)."""
    changed: bool = False
    """Whether chunks were split off or shortened since the last commit."""
    reported_complete: bool = field(init=False)
    """Whether the journal has all its chunks."""
    trials: dict[int, Trial] = field(default_factory=dict)
    """Failures, by chunk number."""
    resting: dict[int, float] = field(default_factory=dict)
    """The chunks that wait for their next try, with its time (`clock.monotonic_s`)."""
    parked: set[int] = field(default_factory=set)
    """The chunks that are not retried."""
    parked_in_a_row: int = 0
    under_way: int = 0
    turn: int = 0
    """The number of its last group; 0 before the first."""
    failures: int = 0
    """Failures in a row of the table as a whole."""
    retry_at: float = 0.0
    begins: str = ""
    """When its copy begins, if not at once: UTC text. `retry_at` is that time by the monotonic clock."""
    changed_s: float = math.inf
    """When a read first found the table changed (`clock.monotonic_s`)."""
    dropped: bool = False
    """Whether its chunks are discarded."""
    seconds: float = 0.0
    """Seconds that readers spent on it, without the pauses of throttled reads."""
    read: int = 0
    """The number of chunks read."""
    rows: int = 0
    bytes: int = 0
    """Rows and bytes of the files of the chunks read."""

    def __post_init__(self) -> None:
        self.reported_complete = reported_whole(self.plan)
        self.key: ChunkKey | None = self.plan.key(self.table)
        self.waiting.extend(Chunk(number, limits) for number, limits in sorted(self.coverage.pending.items()))
        self.on("split", self.coverage.pending)

    def on(self, event: str, numbers: Iterable[int]) -> None:
        """Apply an event to the states of these chunks. Raises IllegalEventError."""
        self.states.update({n: CHUNK.after(self.states.get(n, START), event) for n in numbers})

    def listed(self, chunk: Chunk) -> bool:
        """Whether the journal got the chunk, with these bounds, together with the plan."""
        return reported_whole(self.plan) and (
            chunk.number < self.plan.estimated_chunks and chunk.limits == self.plan.even_range(chunk.number)
        )

    @property
    def ready(self) -> bool:
        return not self.dropped and not self.stuck and self.retry_at <= clock.monotonic_s()

    @property
    def rests(self) -> bool:
        """Whether its copy has yet to begin, later than now."""
        return bool(self.begins) and not (self.turn or self.ready or self.dropped)

    @property
    def stuck(self) -> bool:
        """Whether too many chunks in a row were parked, so that no more are tried."""
        return self.parked_in_a_row >= PARKED_IN_ROW

    @property
    def has_work(self) -> bool:
        """Whether it has chunks to read or to split off."""
        return not self.dropped and not self.stuck and bool(self.waiting or self.resting or self.coverage.unsplit)

    @property
    def unsplit(self) -> bool:
        """Whether nothing of it is split yet, so that its first chunk is needed at once."""
        return not self.coverage.done and not self.coverage.pending

    @property
    def chunk_s(self) -> float:
        """Seconds per chunk: measured, or estimated from its rows."""
        if self.read:
            return max(self.seconds / self.read, 1e-3)
        return _CHUNK_S + min(self.plan.chunk_rows, max(self.plan.approx_rows, 1)) / ROWS_PER_S

    @property
    def row_bytes(self) -> float:
        """Bytes of files per row: measured, or the server's estimate of the table's size."""
        if self.bytes:
            return self.bytes / max(self.rows, 1)
        return self.plan.approx_bytes / max(self.plan.approx_rows, 1)

    @property
    def waiting_s(self) -> float:
        """Estimated seconds for all waiting chunks."""
        return len(self.waiting) * self.chunk_s

    def keys_of(self, number: int) -> tuple[Bound, ...]:
        """The keys of chunk `number`."""
        return self.keys[number * KEYS_A_CHUNK : (number + 1) * KEYS_A_CHUNK]

    def next_chunks(self, budget_s: float, readers: int, *, share: bool) -> list[Chunk]:
        """Take the next chunks, worth `budget_s`.

        share: leave chunks for other readers, so that groups shrink towards the end.
        """
        fair = max(1, len(self.waiting) // (2 * readers)) if share else len(self.waiting)
        count = self._group_limit(min(max(1, round(budget_s / self.chunk_s)), fair))
        chunks = [self.waiting.popleft() for _ in range(count)]
        self.under_way += count
        self.on("assigned", [chunk.number for chunk in chunks])
        return chunks

    def _group_limit(self, count: int) -> int:
        """How many of the next chunks may share a group; chunks that failed share it with few others."""
        for before, chunk in enumerate(self.waiting):
            if before >= count:
                break
            if trial := self.trials.get(chunk.number):
                count = min(count, max(trial.among, before))
        return count

    def postpone(self, number: int, until_s: float) -> None:
        """Do not retry a failed chunk before that time."""
        self.resting[number] = until_s

    def queue_due(self) -> None:
        """Queue the chunks whose wait is over, first in line."""
        now_s = clock.monotonic_s()
        due = sorted((n for n, until_s in self.resting.items() if until_s <= now_s), reverse=True)
        for number in due:
            del self.resting[number]
            self.waiting.appendleft(Chunk(number, self.coverage.pending[number]))

    def park(self, number: int) -> None:
        """Park a failed chunk."""
        self.on("parked", [number])
        self.parked.add(number)

    def unpark_all(self) -> None:
        """Queue the parked chunks like any others."""
        self.on("tried again", self.parked)
        self.waiting.extend(Chunk(number, self.coverage.pending[number]) for number in sorted(self.parked))
        for number in self.parked:
            self.trials[number] = Trial(was_parked=True)
        self.parked = set()
        self.parked_in_a_row = 0

    def priority(self, *, in_turn: bool = False) -> tuple[int, int, int, float]:
        """The sort key for the next table: priority, then the fewest chunks in flight, then the most work left.

        in_turn: before the most work left, the table that has waited longest. If there is only one reader, no table has
        chunks in flight when the next one is chosen, and the largest would come first until it is copied.
        """
        remaining_chunks = self.coverage.total(self.plan.estimated_chunks) - self.coverage.done
        return self.rank, self.under_way, self.turn if in_turn else 0, -remaining_chunks * self.chunk_s

    def take(self, split: Split) -> list[Chunk]:
        """Add split-off chunks; returns them."""
        self.coverage, chunks = self.coverage.after(split)
        self.on("split", [chunk.number for chunk in chunks])
        self.waiting.extend(chunks)
        self._note(chunks)
        return chunks

    def shorten(self, number: int, limits: Range) -> list[Chunk]:
        """Record that a chunk was read only up to a nearer bound; returns the shortened chunk."""
        self.on("split", [number])
        self.coverage = self.coverage.shortened(number, limits)
        chunk = Chunk(number, limits)
        self._note([chunk])
        return [chunk]

    def _note(self, chunks: Iterable[Chunk]) -> None:
        self.changed = True
        self.uncommitted.update({chunk.number: chunk for chunk in chunks})

    def put_back(self, numbers: Iterable[int]) -> None:
        """Queue assigned chunks that were not read, first in line."""
        if not self.dropped:
            back = [Chunk(number, self.coverage.pending[number]) for number in sorted(numbers)]
            self.waiting.extendleft(reversed(back))
            self.on("put back", [chunk.number for chunk in back if self.states[chunk.number] == "reading"])

    def lost(self, number: int) -> None:
        """Queue a finished chunk whose files are gone before its commit."""
        self.on("lost", [number])
        self.waiting.appendleft(Chunk(number, self.coverage.pending[number]))

    def chunk_read(self, report: ChunkReport) -> None:
        """Record a finished chunk and its reading time."""
        self.on("finished", [report.chunk])
        self.seconds += sum(report.timings.values()) - report.paused_s
        self.read += 1
        self.rows += report.rows
        self.bytes += sum(file.bytes for file in report.files)
        self.failures = 0
        self.parked_in_a_row = 0

    def note_commit(self, coverage: Coverage) -> None:
        """Record a committed epoch: all split-off chunks are in the ledger; finished ones are no longer pending."""
        self.coverage = coverage
        self.uncommitted = {}
        self.changed = False
        if done := [number for number in self.states if number not in coverage.pending]:
            self.on("committed", done)
            self.states = {number: self.states[number] for number in coverage.pending}

    def drop(self) -> None:
        """Stop reading it and discard its chunks."""
        self.on("dropped", self.states)
        self.states.clear()
        self.dropped = True
        self.waiting.clear()
        self.resting.clear()
        self.parked.clear()


@dataclass(frozen=True)
class Finished:
    """A chunk that was read and waits for its commit."""

    report: ChunkReport
    redump: str | None = None
    """The command that redumped it."""
    keys: tuple[Bound, ...] = ()
    """The identities of its rows, if the command names keys."""

    @property
    def table(self) -> str:
        return self.report.table

    @property
    def identity(self) -> tuple[str, int]:
        """Its table and number."""
        return self.table, self.report.chunk

    @property
    def limits(self) -> Range:
        """The range that was read."""
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
        """For a redump: the files with the mirror rows that the chunk does not have."""
        return self.report.ghosts


def table_copy(
    spec: Spec,
    captured: CapturedTables,
    name: str,
    coverage: Coverage,
    redump: str | None = None,
    keys: tuple[Bound, ...] = (),
    mirrors: tuple[MirrorReader, ...] = (),
) -> TableCopy:
    """A copy of a captured table; or, for a command that redumps them, of some of its rows."""
    table, plan = captured.tables[name], captured.plans[name]
    rank, projection = spec.snapshot.rank(table.database, table.name), captured.projection(name)
    return TableCopy(table, plan, captured.chunks(name), rank, coverage, projection, redump, keys, mirrors)


def mirrors_of(spec: Spec, captured: CapturedTables, name: str, sink: str) -> tuple[MirrorReader, ...]:
    """The mirrors of a table, for a redump: of the first destination, and of a further sink that the command names.

    sink: "" for none. Raises SpecError for one that cannot be read back.
    """
    first = captured.reader(name)
    if not sink:
        return (first,)
    tables = tables_of(sink_named(spec.sink, spec.sinks, sink))
    if tables is None:
        raise SpecError(
            f"The tables of sink {sink} are not read back.",
            detail="Nothing was read.",
            hint='Redump without "sink" in the request: every destination gets the rows.',
        )
    further = tables.reader(captured.tables[name])
    return (further,) if isinstance(first, NoMirror) else (first, further)
