"""What limits a copy now: a wait, the throttle, reading from the source, the backfill, writing, or idle readers.

It is computed from the seconds of the readers in the last minute. Causes that look alike share a name:
`read` includes the source's time, the reader's decoding and the pauses of a throttle.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.common.view import words
from engine.history.cost_queries import ReaderSeconds

WINDOW_S = 60.0
"""Seconds over which it is computed."""
_NEAR = 0.8
"""From this share of a rate limit on, the limit is what holds the copy back."""
_IDLE = 0.5
"""Below this share of busy time, the readers wait for something else."""


@dataclass(frozen=True)
class Bottleneck:
    """What limits the copy, in a few words, and how that is known."""

    name: str
    why: str


def bottleneck(
    cost: ReaderSeconds,
    readers: int,
    settings: Mapping[str, Any],
    rows_s: float | None,
    waiting_for: str | None,
    window_s: float = WINDOW_S,
) -> Bottleneck | None:
    """None while too little is known.

    readers: how many may read at once. settings: those of the throttle. waiting_for: as the runner reports.
    window_s: the interval of `cost`.
    """
    if waiting_for and not waiting_for.startswith("at most "):
        return Bottleneck("a wait", waiting_for)
    if limit := _throttled(settings, rows_s, cost.bytes / window_s):
        return Bottleneck("the throttle", limit)
    if not cost.chunks or readers < 1:
        return None
    busy = min(cost.busy_s / (readers * window_s), 1.0)
    share = f"{words.plural(readers, 'reader')} busy {busy:.0%} of the last {window_s:.0f} s"
    if busy < _IDLE:
        return Bottleneck("idle readers", f"{share}; otherwise they wait for chunks, Spark or a commit")
    steps = {
        "reading from the source": (cost.read_s, ", decoding included"),
        "watermarks of the source": (cost.watermarks_s, ""),
        "the backfill from the binlog": (cost.backfill_s, ""),
        "writing to the destination": (cost.write_s, ""),
    }
    name, (seconds, note) = max(steps.items(), key=lambda step: step[1][0])
    part = f"{seconds / cost.busy_s:.0%} of the readers' time{note}"
    most = "; more readers may help" if busy > _NEAR else ""
    return Bottleneck(name, f"{part}; {share}{most}")


def readers_of(slots: int, usual: int, settings: Mapping[str, Any]) -> int:
    """How many chunks are read at once.

    usual: of the spec, 0: as many as slots. A rate keeps a slot free for the binlog.
    """
    readers = min(settings.get("readers") or usual or slots, slots)
    rated = settings.get("max_rows_per_s") or settings.get("max_bytes_per_s")
    return max(1, min(readers, slots - 1)) if rated else readers


def _throttled(settings: Mapping[str, Any], rows_s: float | None, bytes_s: float) -> str:
    """How close the copy is to a rate limit; empty if it is not."""
    rows, size = settings.get("max_rows_per_s"), settings.get("max_bytes_per_s")
    if rows and rows_s is not None and rows_s >= _NEAR * rows:
        return f"{rows_s:,.0f} of at most {rows:,} rows/s"
    if size and bytes_s >= _NEAR * size:
        return f"{words.size(bytes_s)}/s of at most {words.size(size)}/s of files"
    return ""
