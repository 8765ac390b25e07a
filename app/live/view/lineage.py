"""Which chunks were split from which, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.history.chunk_splits import ChunkSplit

_MOST = 3
"""The most splits that a sentence lists."""


@dataclass(frozen=True)
class Lineage:
    """The splits of a table's chunks, by parent and by child."""

    splits: Mapping[int, ChunkSplit] = field(default_factory=dict)
    """By the number of the chunk that was split."""
    parents: Mapping[int, int] = field(default_factory=dict)
    """The parent's number, by child."""

    def words(self, chunk: int) -> str:
        """`split from 17`, `split into 18, 19`, or both on two lines; empty for a chunk as it was planned."""
        lines = []
        if chunk in self.parents:
            lines.append(f"split from {self.parents[chunk]}")
        if chunk in self.splits:
            lines.append(f"split {into}" if (into := _into(self.splits[chunk])) else "split: larger than planned")
        return "\n".join(lines)


UNSPLIT = Lineage()
"""Of a table without splits."""


def lineage(splits: Sequence[ChunkSplit]) -> Lineage:
    """The lineage of a table."""
    return Lineage({one.chunk: one for one in splits}, {child: one.chunk for one in splits for child in one.into})


def split_words(split: ChunkSplit) -> str:
    """`at 7, planned up to 9, into 18, 19`; without the chunks of the rest if they are unknown."""
    before = "the table's end" if split.planned_upper is None else split.planned_upper
    return ", ".join(part for part in (f"at {split.upper}, planned up to {before}", _into(split)) if part)


def listed(splits: Sequence[ChunkSplit]) -> str:
    """`17 into 18, 19; 40 into 131; 9 more`; empty if no split has known children."""
    entries = [f"{one.chunk} {into}" for one in splits if (into := _into(one))]
    more = len(splits) - len(entries[:_MOST])
    return "; ".join([*entries[:_MOST], *([f"{more:,} more"] if entries and more else [])])


def _into(split: ChunkSplit) -> str:
    """`into 18, 19`."""
    return f"into {', '.join(map(str, split.into))}" if split.into else ""
