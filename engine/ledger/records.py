"""Epoch records, as stored in the ledger: JSON, and the only unit of change of a pipeline.

The state after epoch k is the records 0…k applied in order (`ledger.state`). An optional field is present only if it
carries information.
"""

from typing import Any, NotRequired, TypedDict

from engine.base.errors import Failure

Description = dict[str, Any]
"""JSON defined elsewhere: `decode.schema`, `plan.chunks`, `plan.coverage`, `capture.files`, `source.positions`."""
ErrorRecord = Failure
"""`errors.TidemarkError.as_dict`."""


class ChunkRecord(TypedDict):
    """A chunk published with the epoch."""

    chunk: int
    exact: Description | None
    """The position at which its rows equal the source's; None only in tests."""
    files: list[Description]
    rows: int
    nulled: dict[str, int]
    """Invalid dates that became NULL, by column."""


class ChangesRecord(TypedDict):
    """A table's changes published with the epoch."""

    files: list[Description]
    kinds: list[int]
    """Counts, in the order of `decode.images.KINDS`."""
    nulled: dict[str, int]


class Planned(TypedDict):
    """The table joins the pipeline."""

    table: Description
    plan: Description
    projection: NotRequired[Description | None]
    by: NotRequired[str | None]
    """The command that added the table; None if there was none."""


class Due(TypedDict):
    """A resnapshot that was decided and has not begun yet."""

    at: str
    """When it was decided: UTC text."""
    by: str | None
    """The command that asked for it; None if Tidemark decided it."""
    why: ErrorRecord | None
    """The error that it repairs."""


class Switch(TypedDict):
    """From the next epoch on, the table is altered or resnapshotted."""

    table: Description
    plan: Description
    projection: NotRequired[Description | None]
    before: Description
    """The table before the switch."""
    before_projection: NotRequired[Description | None]
    since: NotRequired[Description | None]
    """For a resnapshot that copies nothing: the position from which the table is streamed."""
    by: NotRequired[str | None]
    automatic: NotRequired[str]
    """When Tidemark decided it by itself: UTC text. Absent if an operator asked for it."""


class Removal(TypedDict):
    """The table leaves the pipeline."""

    by: str | None
    drop: bool
    """Whether the published data is deleted too."""


class TableChange(TypedDict, total=False):
    """The effect of an epoch on one table."""

    planned: Planned
    split: Description
    """Chunks split off since the last epoch, and the ranges still unsplit (`plan.coverage`)."""
    chunks: list[ChunkRecord]
    changes: ChangesRecord
    altered: Switch
    """Its columns from here on. Finished chunks stay."""
    resnapshot: Switch
    """The table is resnapshotted from here on."""
    removed: Removal
    dropped: bool
    """The published data was deleted."""
    copied: bool
    """`chunks` contains the last chunk."""
    stopped: ErrorRecord
    due: Due | None
    """A resnapshot that was decided; None if it is not needed any more."""


class SinkRecord(TypedDict, total=False):
    """A destination besides the first one, or what has changed of it."""

    type: str
    path: str
    id: str
    """Names the epochs that it counts as its own. Empty when it joined for the first time."""
    joined: int
    """The epoch after which it takes epochs; before, its tables are read back. -1: it takes all of them."""
    generations: dict[str, int]
    """The tables when it joined, with their generations."""
    applied: dict[str, dict[str, int]]
    """By table and kind, the epoch that it has reached."""
    stopped: ErrorRecord
    """Why it gets nothing any more."""


class TermRecord(TypedDict):
    """A runner takes over the pipeline."""

    number: int
    run: str


EpochRecord = TypedDict(
    "EpochRecord",
    {
        "epoch": int,
        "run": str,
        "ts": str,  # UTC text
        "from": Description,  # a position
        "to": Description,
        "next_seq": int,  # the `_tm_seq` after the last change
        "tables": dict[str, TableChange],
        "ledger": NotRequired[str],  # epoch 0 only
        "identity": NotRequired[str],  # epoch 0, and whenever the source became another server
        "unknown": NotRequired[dict[str, int]],  # skipped binlog events, by type
        "largest": NotRequired[Description],  # a transaction larger than any before
        "term": NotRequired[TermRecord],
        "applied": NotRequired[
            dict[str, dict[str, int]]
        ],  # by table and kind, the epoch that the destination has reached
        "sinks": NotRequired[dict[str, SinkRecord | None]],  # what changes of further sinks; None: it has left
        "sink_places": NotRequired[dict[str, int]],  # how often a sink has joined, by its place, if it is not counted
        "only": NotRequired[
            list[str]
        ],  # the tables whose parts are left, once all others have been applied (`store.prune`)
        "binlog_off": NotRequired[
            dict[str, str]
        ],  # by identity, the servers whose binlog has a gap that no resnapshot from them has filled, and its time
        "lineage": NotRequired[str],  # the destination starts a new count of epochs here
    },
)
