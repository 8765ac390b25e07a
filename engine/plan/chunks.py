"""Chunks of a table: half-open ranges of its chunk key that cover it without gaps or overlaps.

Also the plan that produces them.

A plan does not list its chunks: an even plan has a step, an uneven one is walked during the snapshot
(`plan.next_chunks`). Each chunk ends where the next one begins; the first is open below, the last open above. NULL keys
belong to the first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from json import dumps
from typing import Any, Literal

from engine.decode.schema import Table
from engine.plan.keys import EXACT, Bound, ChunkKey
from engine.source.connect import quote
from engine.spec.sink_settings import Merging

Strategy = Literal["even", "uneven", "one"]


@dataclass(frozen=True)
class Range:
    """`[lower, upper)`; None means open."""

    lower: Bound | None = None
    upper: Bound | None = None

    def as_list(self) -> list[list[str] | None]:
        """The record for the ledger; `range_from` is the inverse."""
        return [None if bound is None else list(bound) for bound in (self.lower, self.upper)]


WHOLE = Range()


def range_from(ends: Iterable[Iterable[str] | None]) -> Range:
    """The inverse of `Range.as_list`."""
    lower, upper = (None if end is None else tuple(end) for end in ends)
    return Range(lower, upper)


@dataclass(frozen=True)
class Plan:
    """How to split one table, and why."""

    table: str
    approx_rows: int
    approx_bytes: int
    """`approx_rows` and `approx_bytes` are the server's estimates."""
    chunk_key: tuple[str, ...]
    """The columns of the chunk key; empty if there is none."""
    index: str
    """The index that reads ranges of the chunk key."""
    minimum: str | None
    maximum: str | None
    """`minimum` and `maximum` of the chunk key's first column, at planning time."""
    factor: float | None
    """The distribution factor `(max - min + 1) / rows` of a numeric key; None if it has no meaning."""
    strategy: Strategy
    reason: str
    """The reason for the strategy, in plain words."""
    chunk_rows: int
    """Rows per chunk."""
    estimated_chunks: int
    first: str | None = None
    step: str | None = None
    """Even plans only: the bounds are first, first + step, … for `estimated_chunks` chunks."""
    mirror: Merging | None = None
    """How changes are merged into the mirror that this plan creates. None: not decided here, or there is no mirror."""

    def even_bound(self, number: int) -> Bound | None:
        """The lower bound of chunk `number` of an even plan; None for the first chunk, which is open."""
        if not number:
            return None
        assert self.first is not None
        assert self.step is not None
        return (f"{EXACT.fma(number - 1, Decimal(self.step), Decimal(self.first)):f}",)

    def even_range(self, number: int) -> Range:
        """The range of chunk `number` of an even plan, or of the only chunk of a plan of one."""
        following = number + 1 < self.estimated_chunks
        return Range(self.even_bound(number), self.even_bound(number + 1) if following else None)

    def even_ranges(self) -> Iterator[Range]:
        """All ranges of a plan that is not uneven."""
        return (self.even_range(number) for number in range(self.estimated_chunks))

    def key(self, table: Table) -> ChunkKey | None:
        """The chunk key with the table's columns; None if the plan has none."""
        return ChunkKey(tuple(map(table.column, self.chunk_key)), self.index) if self.chunk_key else None

    def as_dict(self) -> dict[str, Any]:
        """The record for the ledger; `plan_from_dict` is the inverse."""
        return asdict(self)

    def summary(self) -> dict[str, Any]:
        """The plan without its chunks, as in `plan --json` and the journal (docs/command-line.md)."""
        return {
            "table": self.table,
            "approx_rows": self.approx_rows,
            "chunk_key": list(self.chunk_key),
            "min": self.minimum,
            "max": self.maximum,
            "distribution_factor": self.factor,
            "strategy": self.strategy,
            "reason": self.reason,
            "chunk_rows": self.chunk_rows,
            "estimated_chunks": self.estimated_chunks,
        }


def plan_from_dict(record: Mapping[str, Any]) -> Plan:
    """The inverse of `Plan.as_dict`."""
    return Plan(**{**record, "chunk_key": tuple(record["chunk_key"])})


def text(bound: Bound | None) -> str | None:
    """A bound as the contract writes it: the value's text, or a JSON list of texts for several columns."""
    if bound is None:
        return None
    return bound[0] if len(bound) == 1 else dumps(bound, ensure_ascii=False)


def predicate(key: ChunkKey, limits: Range, *, after: bool = False) -> str:
    """The SQL condition of a range; empty if open at both ends.

    Both servers' optimisers turn it into ranges of the index.

    after: the range does not include its lower end.

    Several columns compare row by row: `(a, b) >= (1, 2)` is `a > 1 OR (a = 1 AND b >= 2)`.
    (Row constructors mean the same, but read the whole index.)
    """
    above = _compared(key, limits.lower, ">", ">" if after else ">=") if limits.lower is not None else ""
    below = _compared(key, limits.upper, "<", "<") if limits.upper is not None else ""
    if below and not above and key.columns[0].nullable:
        return f"({below} OR {quote(key.columns[0].name)} IS NULL)"
    return " AND ".join(part for part in (above, below) if part)


def after_bound(key: ChunkKey, bound: Bound) -> str:
    """The SQL condition of all keys after a bound, without the keys that begin with it."""
    return _compared(key, bound, ">", ">")


def _compared(key: ChunkKey, bound: Bound, outer: str, last: str) -> str:
    """A row-wise comparison with a bound: operator `outer` for each column but the bound's last, which uses `last`."""
    names = [quote(name) for name in key.names]
    values = [key.literal(place, value) for place, value in enumerate(bound)]
    ways = []
    for place in range(len(bound)):
        same = [f"{names[n]} = {values[n]}" for n in range(place)]
        operator = last if place == len(bound) - 1 else outer
        ways.append(" AND ".join([*same, f"{names[place]} {operator} {values[place]}"]))
    return ways[0] if len(ways) == 1 else "(" + " OR ".join(f"({way})" for way in reversed(ways)) + ")"
