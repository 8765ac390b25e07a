"""The records of the ledger: epochs, the only unit of change of a pipeline, and their parts.

The state after epoch k is the records 0…k applied in order (`ledger.state`). `ledger.record_json` reads and writes
their JSON. A field that is None, or empty, carries no information.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.base.errors import ErrorRecord
from engine.source.positions import Position

Description = dict[str, Any]
"""JSON of a table, plan, projection, split or data file, as `decode.schema`, `plan.chunks`, `capture.projection`,
`plan.coverage` and `capture.files` define it. Those who use one parse it: with 1,000 tables of 20 columns, parsing all
of them would add 80 ms to each start, and writing them again 350 ms to each full state. `capture` stands above the
ledger."""
Applied = Mapping[str, Mapping[str, int]]
"""By table and kind, the last epoch that a destination has."""


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk published with the epoch."""

    chunk: int
    exact: Position | None
    """The position at which its rows equal the source's; None only in tests."""
    files: Sequence[Description] = ()
    rows: int = 0
    nulled: Mapping[str, int] = field(default_factory=dict)
    """Invalid dates that became NULL, by column."""


@dataclass(frozen=True)
class ChangesRecord:
    """A table's changes published with the epoch."""

    files: Sequence[Description] = ()
    kinds: Sequence[int] = (0, 0, 0, 0)
    """Counts, in the order of `decode.images.KINDS`."""
    nulled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """The table joins the pipeline."""

    table: Description
    plan: Description
    projection: Description | None = None
    by: str | None = None
    """The command that added the table; None if there was none."""


@dataclass(frozen=True)
class Due:
    """A resnapshot that was decided and has not begun yet."""

    at: str
    """When it was decided: UTC text."""
    by: str | None = None
    """The command that asked for it; None if Tidemark decided it."""
    why: ErrorRecord | None = None
    """The error that it repairs."""


@dataclass(frozen=True)
class Switch:
    """From the next epoch on, the table is altered or resnapshotted."""

    table: Description
    plan: Description
    before: Description
    """The table before the switch."""
    projection: Description | None = None
    before_projection: Description | None = None
    since: Position | None = None
    """For a resnapshot that copies nothing: the position from which the table is streamed."""
    joins: bool = False
    """Whether a removed table joins again, into the data that was kept."""
    by: str | None = None
    """The command that added a table that joins; None if there was none."""
    automatic: str | None = None
    """When Tidemark decided it by itself: UTC text. None if an operator asked for it."""
    is_given_up: bool = False
    """Whether an operator gave up what the destination had of it, for that was not what the ledger had published."""


@dataclass(frozen=True)
class Removal:
    """The table leaves the pipeline."""

    by: str | None
    drop: bool
    """Whether the published data is deleted too."""


@dataclass(frozen=True)
class TableChange:
    """The effect of an epoch on one table."""

    split: Description | None = None
    """Chunks split off since the last epoch, and the ranges still unsplit (`plan.coverage`)."""
    chunks: Sequence[ChunkRecord] = ()
    changes: ChangesRecord | None = None
    planned: Planned | None = None
    altered: Switch | None = None
    """Its columns from here on. Finished chunks stay."""
    resnapshot: Switch | None = None
    """The table is resnapshotted from here on."""
    stopped: ErrorRecord | None = None
    due: Due | None = None
    """A resnapshot that was decided."""
    not_due: bool = False
    """Whether a resnapshot that was decided is not needed any more."""
    copied: bool = False
    """Whether `chunks` contains the last chunk."""
    removed: Removal | None = None
    dropped: bool = False
    """Whether the published data was deleted."""

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The alteration and the resnapshot, as far as there are any."""
        return tuple(switch for switch in (self.altered, self.resnapshot) if switch is not None)

    @property
    def written(self) -> tuple[ChunkRecord | ChangesRecord, ...]:
        """Its chunks and changes."""
        return (*self.chunks, *((self.changes,) if self.changes is not None else ()))

    @property
    def change_files(self) -> Sequence[Description]:
        """The files of its changes."""
        return self.changes.files if self.changes is not None else ()


NOTHING = TableChange()
"""The change of a table that an epoch does not concern."""


@dataclass(frozen=True)
class SinkRecord:
    """A destination besides the first one."""

    type: str
    path: str
    id: str
    """Names the epochs that it counts as its own. Empty when it joined for the first time."""
    joined: int
    """The epoch after which it takes epochs; before, its tables are read back. -1: it takes all of them."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """The tables when it joined, with their generations."""
    copied: frozenset[str] = frozenset()
    """Those of them whose rows from before it joined it has."""
    applied: Applied = field(default_factory=dict)
    """What it has."""
    stopped: ErrorRecord | None = None
    """Why it gets nothing any more."""

    def lacks_copy(self, table: str, generation: int) -> bool:
        """Whether it lacks the rows that a table had when the sink joined. generation: the table's, now.

        A resnapshot since then brings them, too.
        """
        return table not in self.copied and self.generations.get(table) == generation


@dataclass(frozen=True)
class SinkNews:
    """What has changed of a destination besides the first one."""

    applied: Applied = field(default_factory=dict)
    """The tables of which it has more."""
    stopped: ErrorRecord | None = None
    copied: frozenset[str] = frozenset()
    """The tables whose rows from before it joined it has got."""

    def __bool__(self) -> bool:
        return bool(self.applied or self.stopped or self.copied)


@dataclass(frozen=True)
class TermRecord:
    """A runner takes over the pipeline."""

    number: int
    run: str


@dataclass(frozen=True)
class EpochRecord:
    """One epoch."""

    epoch: int
    run: str
    ts: str
    """UTC text."""
    from_position: Position
    to_position: Position
    next_seq: int
    """The `_tm_seq` after the last change."""
    tables: Mapping[str, TableChange]
    ledger: str | None = None
    """Epoch 0 only."""
    identity: str | None = None
    """Epoch 0, and whenever the source became another server."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Skipped binlog events, by type."""
    largest: Description | None = None
    """A transaction larger than any before."""
    binlog_off: Mapping[str, str] | None = None
    """By identity, the servers whose binlog has a gap that no resnapshot from them has filled, and its time. None if
    that has not changed."""
    lineage: str | None = None
    """The destination starts a new count of epochs here."""
    term: TermRecord | None = None
    applied: Applied = field(default_factory=dict)
    """What the destination has more than the ledger knew."""
    sinks: Mapping[str, SinkRecord | SinkNews | None] = field(default_factory=dict)
    """The further sinks that join or have news. None: it has left."""
    sink_places: Mapping[str, int] = field(default_factory=dict)
    """How often a sink has joined, by its place, if it is not counted."""
    only: Sequence[str] | None = None
    """The tables whose parts are left, once all others have been applied (`store.prune`). None: all of them."""
