"""The colours of the chunk map: by state, or by one number of each chunk on a logarithmic scale.

A scale has up to five steps. Their lower bounds are round, so they stay the same while chunks are read. Zero, which has
no logarithm, is a step of its own.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.common.view import words
from engine.history.chunk_queries import ChunkState

MOST_STEPS = 5
_FEWEST_STEPS = 3
_SHADES = 5
"""Shades of the ramp; 0 is the shade of zero."""


def _decades(*digits: float, last: int = 12) -> tuple[float, ...]:
    return tuple(digit * 10**power for power in range(last + 1) for digit in digits)


_SECONDS = (
    *(milliseconds / 1000 for milliseconds in _decades(1, 2, 5, last=3)),
    *(10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 43_200),
    *(days * 86_400 for days in _decades(1, 2, 5, last=3)),
)
# Chunks have about the planned rows, a round number. It must not be a bound, or chance would give equal chunks two
# colours.
_ROWS = (1, 3, 7, *(10 * value for value in _decades(1.5, 3, 7, last=10)))
_COUNTS = _decades(1, 2, 5)
_ATTEMPTS = (1, 2, 3, *_decades(5, 10, 20, last=5))


@dataclass(frozen=True)
class Colouring:
    """A number that chunks are coloured by."""

    label: str
    measure: str
    """A name of `chunk_values.MEASURES`."""
    ladder: Sequence[float]
    """Ascending round numbers, about evenly spaced on a logarithmic scale."""
    stop: Callable[[float], str]
    """The label of a stop of the legend."""
    text: Callable[[float], str]
    """A value with its unit."""
    absent: str
    """The text for a chunk that has no value yet."""
    having: tuple[str, ...] = ("finished", "published")
    """The states in which a chunk has a value."""
    note: str = ""

    def numbers(self, values: Sequence[float], now: datetime) -> list[float]:
        """The values of `chunk_states` as numbers of the scale. An instant becomes the seconds since then."""
        if self.measure != "newest":
            return list(values)
        return [max(now.timestamp() - value, 0.0) for value in values]

    def missing(self, state: str) -> str:
        """The text for a chunk in this state without a value."""
        return f"{self.label.lower()} unknown" if state in self.having else self.absent


def _gap(value: float) -> str:
    return f"{words.size(value)} of binlog" if value else "no watermark gap"


COLOURINGS: dict[str, Colouring | None] = {
    "State": None,
    "Duration": Colouring("Duration", "duration", _SECONDS, words.duration, words.duration, "not read yet"),
    "Rows": Colouring("Rows", "rows", _ROWS, words.count, lambda v: words.plural(int(v), "row"), "not read yet"),
    "Watermark gap": Colouring(
        "Watermark gap",
        "gap",
        _COUNTS,
        words.size,
        _gap,
        "not read yet",
        note="The gap is unknown if it spans several binlog files.",
    ),
    "Changes in the window": Colouring(
        "Changes in the window",
        "changes",
        _COUNTS,
        words.count,
        lambda v: f"{words.plural(int(v), 'change')} in the window",
        "not read yet",
    ),
    "Attempts": Colouring(
        "Attempts",
        "attempts",
        _ATTEMPTS,
        words.count,
        lambda v: words.plural(int(v), "attempt"),
        "not tried yet",
        ("reading", "failed", "parked", "finished", "published"),
    ),
    "Age": Colouring(
        "Age",
        "newest",
        _SECONDS,
        words.duration,
        lambda v: f"{words.duration(v)} old",
        "not published yet",
        ("published",),
        "The age counts from the chunk's newest publication or redump.",
    ),
}
"""By the label of the control. None: by state."""


@dataclass(frozen=True)
class Scale:
    """The steps of a colouring, for the chunks of one table."""

    colouring: Colouring
    bounds: tuple[float, ...]
    """The lower bounds of the steps, ascending; empty if no chunk has a value."""
    without: int
    """Chunks without a value."""
    now: datetime

    def value(self, values: Sequence[float]) -> float | None:
        """The highest number among the values of a tile's chunks; the oldest chunk for the age."""
        return max(self.colouring.numbers(values, self.now), default=None)

    def step(self, value: float | None) -> int | None:
        """The step of a number, from 0."""
        return None if value is None or not self.bounds else max(bisect_right(self.bounds, value) - 1, 0)

    def digit(self, step: int) -> str:
        """What stands in a tile of a step: 1, 2, 3 …, and 0 for zero. So colours are not needed to read the map."""
        return str(step if self.bounds[0] == 0 else step + 1)

    def shade(self, step: int) -> int:
        """The shade of the ramp, 0 to 5."""
        zero = self.bounds[0] == 0
        if zero and step == 0:
            return 0
        at, of = (step - 1, len(self.bounds) - 1) if zero else (step, len(self.bounds))
        return 1 + round(at * (_SHADES - 1) / max(of - 1, 1))

    def stops(self) -> list[tuple[str, int, str, str]]:
        """For each step its digit, its shade, the label of its lower bound, and its range in words."""
        stop, steps = self.colouring.stop, []
        for step, bound in enumerate(self.bounds):
            above = (
                self.colouring.ladder[0] if bound == 0 else self.bounds[step + 1] if self.bounds[step + 1 :] else None
            )
            ends = f"{stop(bound)} and more" if above is None else f"{stop(bound)} to below {stop(above)}"
            steps.append((self.digit(step), self.shade(step), stop(bound), "0" if bound == 0 and above == 1 else ends))
        return steps

    @property
    def title(self) -> str:
        """The heading of the legend."""
        scale = "logarithmic scale" if self.bounds else "no chunk has a value yet"
        return f"{self.colouring.label}, {scale}"

    @property
    def note(self) -> str:
        """How many chunks have no value; empty if all have one."""
        return f"{words.plural(self.without, 'chunk')} without a value, shown by state" if self.without else ""


def scale(states: Sequence[ChunkState], colouring: Colouring, now: datetime) -> Scale:
    """The scale for all chunks of a table, so that it stays when a tile is opened."""
    values = [state.value for state in states if state.value is not None]
    without = len(states) - len(values)
    if not values:
        return Scale(colouring, (), without, now)
    ends = colouring.numbers((min(values), max(values)), now)
    low, high = min(ends), max(ends)
    least = colouring.ladder[0]
    zero = low < least
    if high < least:
        return Scale(colouring, (0.0,), without, now)
    if zero:
        low = min(number for number in colouring.numbers(values, now) if number >= least)
    steps = _steps(low, high, colouring.ladder, MOST_STEPS - zero, _FEWEST_STEPS - zero)
    return Scale(colouring, (0.0, *steps) if zero else steps, without, now)


def _steps(low: float, high: float, ladder: Sequence[float], most: int, fewest: int) -> tuple[float, ...]:
    """The rungs from `low` to `high`.

    Every second, third … of them if they are too many, and neighbours if they are too few.
    """
    first, last = bisect_right(ladder, low) - 1, bisect_right(ladder, high) - 1
    stride = next(n for n in range(1, len(ladder) + 1) if last // n - first // n < most)
    rungs = ladder[::stride]
    begin, end = first // stride, last // stride
    while end - begin + 1 < fewest:
        if end + 1 < len(rungs):
            end += 1
        else:
            begin -= 1
    return tuple(rungs[begin : end + 1])
