"""Chunks of a table: half-open ranges of its chunk key that cover it with no gap and no overlap.

A plan of n chunks is n - 1 bounds: chunk 0 is everything below the first bound, chunk i is `[bounds[i - 1],
bounds[i])`, the last one is everything from the last bound up. NULL keys belong to chunk 0.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.source.connect import quote

Strategy = Literal["even", "one"]


@dataclass(frozen=True)
class Range:
    """`[lower, upper)` of an integer or decimal key; None is open."""

    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class Plan:
    """How one table is cut, and why.

    chunk_key: the column, or empty without a key. minimum, maximum: of the key when it was planned. factor: the distribution factor
    `(max - min + 1) / rows`, None where it means nothing. reason: in plain words, for the operator.
    """

    table: str
    approx_rows: int
    chunk_key: tuple[str, ...]
    minimum: str | None
    maximum: str | None
    factor: float | None
    strategy: Strategy
    reason: str
    bounds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.bounds) + 1

    def range(self, chunk: int) -> Range:
        """The range of chunk number `chunk`, from 0."""
        lower = self.bounds[chunk - 1] if chunk else None
        return Range(lower, self.bounds[chunk] if chunk < len(self.bounds) else None)

    def as_dict(self) -> dict[str, Any]:
        """As `plan --json` shows it (DESIGN 4)."""
        return {
            "table": self.table,
            "approx_rows": self.approx_rows,
            "chunk_key": list(self.chunk_key),
            "min": self.minimum,
            "max": self.maximum,
            "distribution_factor": self.factor,
            "strategy": self.strategy,
            "reason": self.reason,
            "chunks": [
                {"index": n, "lower": text(self.range(n).lower), "upper": text(self.range(n).upper)}
                for n in range(len(self))
            ],
        }


def text(bound: int | None) -> str | None:
    """A bound as the contract writes it."""
    return None if bound is None else str(bound)


def plan_from_dict(record: dict[str, Any]) -> Plan:
    """The inverse of `Plan.as_dict`."""
    return Plan(
        record["table"],
        record["approx_rows"],
        tuple(record["chunk_key"]),
        record["min"],
        record["max"],
        record["distribution_factor"],
        record["strategy"],
        record["reason"],
        tuple(int(chunk["lower"]) for chunk in record["chunks"][1:]),
    )


def chunk_of(bounds: npt.NDArray[np.int64] | pa.Array, keys: pa.Array) -> npt.NDArray[np.int64]:
    """The chunk number of each key.

    keys: integers or decimals of scale 0. A NULL key belongs to chunk 0. Bounds and keys are compared exactly: as 64-bit integers
    where they fit, else as Python integers.
    """
    null = np.asarray(keys.is_null())
    if pa.types.is_decimal(keys.type):
        values = np.array([0 if v is None else int(v) for v in keys.to_pylist()], dtype=object)
        at = np.searchsorted(np.array(bounds, dtype=object), values, side="right")
    else:
        values = keys.fill_null(0).to_numpy(zero_copy_only=False)
        at = np.searchsorted(np.asarray(bounds, dtype=np.int64), values, side="right")
    return np.where(null, 0, at).astype(np.int64)


def predicate(key: str, limits: Range) -> str:
    """The SQL condition of a range; empty when it is open at both ends."""
    column = quote(key)
    above = f"{column} >= {limits.lower}" if limits.lower is not None else ""
    below = f"{column} < {limits.upper}" if limits.upper is not None else ""
    if below and not above:
        return f"({below} OR {column} IS NULL)"
    return " AND ".join(part for part in (above, below) if part)
