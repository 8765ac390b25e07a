"""An epoch record, as the ledger keeps it: JSON, and the only unit of change of a pipeline.

The state after epoch k is the records 0…k applied in order (`ledger.state`). A field that is not required is there only where it
says something.
"""

from typing import Any, NotRequired, TypedDict

from engine.errors import Failure

Description = dict[str, Any]
"""The JSON of another owner: `decode.schema`, `plan.chunks`, `plan.coverage`, `capture.files`, `source.positions`."""
ErrorRecord = Failure
"""`errors.TidemarkError.as_dict`."""


class ChunkRecord(TypedDict):
    """A chunk that is published with the epoch."""

    chunk: int
    exact: Description | None
    """The position at which its rows are those of the source; None in tests alone."""
    files: list[Description]
    rows: int
    nulled: dict[str, int]
    """Dates that do not exist and became NULL, by column."""


class ChangesRecord(TypedDict):
    """The changes of a table that are published with the epoch."""

    files: list[Description]
    kinds: list[int]
    """How many, in the order of `decode.images.KINDS`."""
    nulled: dict[str, int]


class Planned(TypedDict):
    """The table joins the pipeline."""

    table: Description
    plan: Description
    projection: NotRequired[Description | None]
    by: NotRequired[str | None]
    """The command that had it added; None without one."""


class Switch(TypedDict):
    """From the next epoch on the table is another: altered, or resnapshotted."""

    table: Description
    plan: Description
    projection: NotRequired[Description | None]
    before: Description
    """The table until then."""
    before_projection: NotRequired[Description | None]
    since: NotRequired[Description | None]
    """Of a resnapshot that copies nothing: the position from which on the table is streamed."""
    by: NotRequired[str | None]


class Removal(TypedDict):
    """The table leaves the pipeline."""

    by: str | None
    drop: bool
    """Whether what is published of it goes too."""


class TableChange(TypedDict, total=False):
    """What an epoch does to one table."""

    planned: Planned
    cut: Description
    """Chunks that were cut since, and what is left uncut (`plan.coverage`)."""
    chunks: list[ChunkRecord]
    changes: ChangesRecord
    altered: Switch
    """Its columns from here on. What is copied stays so."""
    resnapshot: Switch
    """It is resnapshotted from here on."""
    removed: Removal
    dropped: bool
    """What was published of it is gone."""
    copied: bool
    """The last chunk is among `chunks`."""
    stopped: ErrorRecord


class TermRecord(TypedDict):
    """A runner takes the pipeline."""

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
        "next_seq": int,  # the `_tm_seq` behind the last change
        "tables": dict[str, TableChange],
        "ledger": NotRequired[str],  # epoch 0 only
        "identity": NotRequired[str],  # epoch 0, and where the source became another server
        "unknown": NotRequired[dict[str, int]],  # events of the log that were passed over, by type
        "largest": NotRequired[Description],  # a transaction that is larger than any before
        "term": NotRequired[TermRecord],
        "applied": NotRequired[dict[str, dict[str, int]]],  # by table and kind, what the destination has by now
        "lineage": NotRequired[str],  # the destination begins a new count of epochs here
    },
)
