"""The reader timeline: which chunk each reader had when. It shows idle readers and stragglers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from app.common.view import words
from app.common.view.figure import Figure, iso, layout, time_axis
from app.common.view.status_style import HEX
from engine.history.chunk_queries import Read

STRAGGLER = 3.0
"""A straggler took more than this many medians …"""
STRAGGLER_S = 1.0
"""… and more than this many seconds, so that chunks of a few milliseconds do not count."""


@dataclass(frozen=True)
class ReaderTotals:
    """One reader in the time shown."""

    reader: str
    chunks: int
    rows: int
    busy: float
    """The share of the time in which it had a chunk, 0 to 1."""


@dataclass(frozen=True)
class Spread:
    """Minimum, quartiles and maximum of a measure, as text."""

    name: str
    values: tuple[str, str, str, str, str]
    """Minimum, 25 %, median, 75 % and maximum."""


def seconds(read: Read) -> float:
    """How long the reader had the chunk."""
    return max((read.ended - read.started).total_seconds(), 0.0)


def stragglers(reads: Sequence[Read]) -> set[tuple[str, int]]:
    """(table, chunk) of the reads that took more than three medians, and more than a second."""
    if len(reads) < 4:
        return set()
    limit = max(STRAGGLER * median(seconds(read) for read in reads), STRAGGLER_S)
    return {(read.table, read.chunk) for read in reads if seconds(read) > limit}


def reader_totals(reads: Sequence[Read], since: datetime, until: datetime) -> list[ReaderTotals]:
    """The totals of each reader, by name. Overlapping reads count once."""
    reads_by_reader: defaultdict[str, list[Read]] = defaultdict(list)
    for read in reads:
        reads_by_reader[read.reader].append(read)
    total = max((until - since).total_seconds(), 0.001)
    totals = []
    for name, own in sorted(reads_by_reader.items()):
        totals.append(ReaderTotals(name, len(own), sum(read.rows for read in own), busy_s(own, since, until) / total))
    return totals


def busy_s(reads: Sequence[Read], since: datetime, until: datetime) -> float:
    """Seconds of the interval in which at least one read was under way."""
    busy, covered = 0.0, since
    for read in sorted(reads, key=lambda read: read.started):
        began, ended = max(read.started, covered), min(read.ended, until)
        if ended > began:
            busy += (ended - began).total_seconds()
            covered = ended
    return busy


def spreads(reads: Sequence[Read]) -> list[Spread]:
    """The cost of a chunk: minimum, quartiles and maximum, as in the Spark UI."""
    rates = [read.rows / seconds(read) for read in reads if seconds(read) > 0]
    gaps = [float(read.gap_bytes) for read in reads if read.gap_bytes is not None]
    return [
        Spread("Seconds a chunk", _five([seconds(read) for read in reads], words.duration)),
        Spread("Rows a chunk", _five([float(read.rows) for read in reads], words.count)),
        Spread("Rows a second", _five(rates, words.count)),
        Spread("Watermark gap", _five(gaps, words.size)),
    ]


def quantile(values: Sequence[float], share: float) -> float:
    """The interpolated quantile of an ordered sequence."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def _five(values: Sequence[float], text: Callable[[float], str]) -> tuple[str, str, str, str, str]:
    if not values:
        return (words.NOTHING,) * 5
    ascending = sorted(values)
    low, first, middle, third, high = (text(quantile(ascending, share)) for share in (0, 0.25, 0.5, 0.75, 1))
    return low, first, middle, third, high


def figure(reads: Sequence[Read], since: datetime, until: datetime) -> Figure:
    """One row per reader, one bar per chunk; gaps are idle time."""
    slow = stragglers(reads)
    kinds = (
        ("chunk", HEX["blue"], [r for r in reads if (r.table, r.chunk) not in slow and not r.attempt]),
        ("straggler: over 3 × median", HEX["violet"], [r for r in reads if (r.table, r.chunk) in slow]),
        (
            "second or later attempt",
            HEX["orange"],
            [r for r in reads if (r.table, r.chunk) not in slow and r.attempt],
        ),
    )
    names = sorted({read.reader for read in reads}, reverse=True)
    data = [_bars(name, colour, reads_of_kind) for name, colour, reads_of_kind in kinds if reads_of_kind]
    return {
        "data": data,
        "layout": layout(
            90 + 44 * max(len(names), 1),
            barmode="overlay",
            showlegend=True,
            xaxis=time_axis(since, until),
            yaxis={"categoryorder": "array", "categoryarray": names, "automargin": True, "type": "category"},
        ),
    }


def _bars(name: str, colour: str, reads: Sequence[Read]) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [read.reader for read in reads],
        "base": [iso(read.started) for read in reads],
        "x": [seconds(read) * 1000 for read in reads],
        "marker": {"color": colour, "line": {"width": 1, "color": "rgba(255,255,255,0.55)"}},
        "text": [
            f"{read.table} chunk {read.chunk}: {words.count(read.rows)} rows in {words.duration(seconds(read))}"
            for read in reads
        ],
        "textposition": "none",
        "hovertemplate": "%{text}<extra>%{y}</extra>",
    }
