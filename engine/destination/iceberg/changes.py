"""What a version of a table changes, as `table` commits it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from engine.destination.iceberg.position_deletes import RowPositions


@dataclass(frozen=True)
class NewFile:
    """A Parquet file that a version has and earlier ones had not."""

    uri: str
    rows: int
    """With those that its deletion vector deletes."""
    bytes: int
    low: Mapping[str, int] = field(default_factory=dict)
    """The smallest value of integer columns."""
    high: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Vector:
    """The deletion vector of a file in a version."""

    rows: int
    """How many it deletes."""
    content: Callable[[], bytes]
    """The vector with its length and checksum, as Delta and Puffin frame it."""
    positions: Callable[[], RowPositions]
    """The deleted positions, in order."""
    earlier_positions: Callable[[], RowPositions]
    """Those of the file's vector in the version before; empty if it had none."""


@dataclass(frozen=True)
class VersionChange:
    """A version of a table, by what it changes."""

    version: int
    at_ms: int
    """When it was committed: milliseconds since 1970."""
    schema: pa.Schema | None = None
    """Its columns, if they change."""
    added: Sequence[NewFile] = ()
    removed: frozenset[str] = frozenset()
    """The URIs of files that it has no more."""
    vectors: Mapping[str, Vector | None] = field(default_factory=dict)
    """By file, the vectors that change; None if it has none any more."""
    is_whole: bool = False
    """Whether `added` and `vectors` are all that the version has."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """What the snapshot says of its origin."""
