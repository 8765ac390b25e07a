"""Throughput and lag over time: the curves of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.common.view import words
from app.common.view.figure import Figure, fade, iso
from app.common.view.health import LAG_FINE_S
from app.common.view.progress import overlap_rows
from app.common.view.status_style import HEX
from engine.history.chunk_queries import Read
from engine.history.series import Epoch, Lag, RowRate

POINTS = 240
"""About as many points as a chart can show."""
_WHOLE = 10.0
"""Smaller rates are labelled with decimals."""
_GAP_WIDTHS = 3.5
"""Readings further apart than this many bucket widths are not joined by a line, because nothing was measured in
between."""


def start(since: datetime, until: datetime, firsts: Sequence[datetime]) -> datetime:
    """Where a chart begins: not before the first run, but at least half a minute before its end."""
    if not firsts:
        return since
    return max(since, min(*firsts, until - timedelta(seconds=30)))


def end(now: datetime, last: datetime | None) -> datetime:
    """Where a chart ends: now, or at the last event if that is more than two minutes old."""
    return now if last is None or now - last < timedelta(minutes=2) else last


def width_ms(since: datetime, until: datetime, finest_ms: int = 2000) -> int:
    """The bucket width for a chart of this length, a multiple of `finest_ms`."""
    usual_ms = (until - since).total_seconds() * 1000 / POINTS
    return max(finest_ms, int(-(-usual_ms // finest_ms)) * finest_ms)


@dataclass(frozen=True)
class Curve:
    """One measure over time."""

    title: str
    """Its unit."""
    ticks: str
    """The number format of its axis."""
    line: Figure
    area: Figure | None = None
    """What fills the room below the line."""

    @property
    def most(self) -> float:
        """Its highest value."""
        return max((value for value in self.line["y"] if value is not None), default=0.0)


@dataclass(frozen=True)
class Threshold:
    """A level with a meaning, such as the lag above which an alert fires."""

    unit: str
    """The title of its curve."""
    value: float
    name: str
    colour: str


def curves_of(
    reads: Sequence[Read | RowRate],
    epochs: Sequence[Epoch],
    points: Sequence[Lag],
    period: tuple[datetime, datetime],
    lives: Sequence[tuple[datetime, datetime]],
    width: int,
) -> list[Curve]:
    """Rows copied and changes committed per second, lag in seconds and in bytes.

    One without a value in the time shown is left out.

    period: begin and end of the chart. lives: for each run, the time from its first to its last event. Outside of these
    a rate is unknown, not 0. A gap in the lag means that nothing was measured.
    """
    since, until = period
    row_times, rows = row_rates(reads, since, until, width)
    change_times, changes = change_rates(epochs, since, until, width)
    rows, changes = _heard(row_times, rows, lives, width), _heard(change_times, changes, lives, width)
    inside = [point for point in points if since <= point.ts <= until]
    times = [point.ts for point in inside]
    curves = [
        _rate("rows copied", "rows/s", HEX["blue"], row_times, rows, width),
        _rate("changes", "changes/s", HEX["green"], change_times, changes, width),
        _curve("lag", "lag, s", "", HEX["primary"], times, [point.lag_s for point in inside], width, "%{y:.2f} s"),
        _curve("lag", "lag, B", "~s", HEX["violet"], times, [point.lag_bytes for point in inside], width, "%{y:.3s}B"),
    ]
    return [curve for curve in curves if any(value is not None for value in curve.line["y"])]


def _rate(
    name: str, unit: str, colour: str, times: Sequence[datetime], rates: Sequence[float | None], width: int
) -> Curve:
    ticks = _number_format(rates)
    line = _line(name, colour, times, rates, width, f"%{{y:{ticks}}} {unit}")
    return Curve(unit, ticks, line, _area(line, colour))


def _curve(
    name: str,
    unit: str,
    ticks: str,
    colour: str,
    times: Sequence[datetime],
    values: Sequence[float | None],
    width: int,
    hover: str,
) -> Curve:
    return Curve(unit, ticks, _line(name, colour, times, values, width, hover))


def thresholds(lag_s: float | None, lag_bytes: float | None) -> list[Threshold]:
    """The levels of the lag. lag_s, lag_bytes: above which an alert fires; None without such an alert."""
    lines = [Threshold("lag, s", LAG_FINE_S, f"keeping up below {words.duration(LAG_FINE_S)}", HEX["orange"])]
    if lag_s is not None:
        lines.append(Threshold("lag, s", lag_s, f"alert above {words.duration(lag_s)}", HEX["red"]))
    if lag_bytes is not None:
        lines.append(Threshold("lag, B", lag_bytes, f"alert above {words.size(lag_bytes)}", HEX["red"]))
    return lines


def _number_format(rates: Sequence[float | None]) -> str:
    """With SI prefixes; small rates with decimals, because half a change would be `500m`."""
    return ".3~s" if max((rate for rate in rates if rate is not None), default=0.0) >= _WHOLE else ".2~f"


def row_rates(
    reads: Sequence[Read | RowRate], since: datetime, until: datetime, width: int
) -> tuple[list[datetime], list[float | None]]:
    """Rows per second in each bucket; a chunk's rows are spread evenly over its read time."""
    step = timedelta(milliseconds=width)
    buckets = max(int((until - since) / step), 0)
    sums = [0.0] * buckets
    for read in reads:
        first = max(int((read.started - since) / step), 0)
        last = min(int((read.ended - since) / step), buckets - 1)
        for n in range(first, last + 1):
            sums[n] += overlap_rows(read, since + n * step, since + (n + 1) * step)
    nonzero = [n for n, total in enumerate(sums) if total]
    if not nonzero:
        return [], []
    # Outside of the copy there is no measurement, so no rate of 0 either.
    measured_buckets = range(nonzero[0], nonzero[-1] + 1)
    return [since + (n + 0.5) * step for n in measured_buckets], [
        sums[n] / step.total_seconds() for n in measured_buckets
    ]


def change_rates(
    epochs: Sequence[Epoch], since: datetime, until: datetime, width: int
) -> tuple[list[datetime], list[float | None]]:
    """Changes per second in each bucket.

    An epoch's changes are spread over the time since the last epoch, at most 4 buckets.
    """
    step = timedelta(milliseconds=width)
    buckets = max(int((until - since) / step), 0)
    if not epochs or not buckets:
        return [], []
    sums = [0.0] * buckets
    before = epochs[0].ts - step
    for epoch in epochs:
        _spread(sums, epoch.changes, (max(before, epoch.ts - 4 * step) - since) / step, (epoch.ts - since) / step)
        before = epoch.ts
    first = min(max(int((epochs[0].ts - step - since) / step), 0), buckets)
    times = [since + (n + 0.5) * step for n in range(first, buckets)]
    return times, [total / step.total_seconds() for total in sums[first:]]


def _heard(
    times: Sequence[datetime], values: Sequence[float | None], lives: Sequence[tuple[datetime, datetime]], width: int
) -> list[float | None]:
    """The values of the buckets in which a runner was alive; None for the others."""
    half = timedelta(milliseconds=width / 2)

    def known(at: datetime) -> bool:
        return any(born - half < at < last + half for born, last in lives)

    return [value if known(at) else None for at, value in zip(times, values, strict=True)]


def _spread(sums: list[float], amount: float, begin: float, end: float) -> None:
    """Spread an amount over the buckets from `begin` to `end`, which are given in buckets."""
    for n in range(max(int(begin), 0), min(int(end) + 1, len(sums))):
        inside = min(end, n + 1) - max(begin, n)
        sums[n] += amount * max(inside, 0.0) / (end - begin) if end > begin else amount


def _line(
    name: str,
    colour: str,
    times: Sequence[datetime],
    values: Sequence[float | None],
    width: int,
    hover: str,
) -> Figure:
    xs: list[str] = []
    ys: list[float | None] = []
    limit = timedelta(milliseconds=width * _GAP_WIDTHS)
    for n, (at, value) in enumerate(zip(times, values, strict=True)):
        if n and at - times[n - 1] > limit:
            xs.append(iso(times[n - 1] + limit / 2))
            ys.append(None)
        xs.append(iso(at))
        ys.append(value)
    return {
        "type": "scatter",
        "mode": "lines+markers",  # without markers, Plotly ignores clicks
        "marker": {"size": 8, "opacity": 0},
        "name": name,
        "x": xs,
        "y": ys,
        "line": {"color": colour, "width": 1.8},
        "connectgaps": False,
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _area(line: Figure, colour: str) -> Figure:
    """The room below a line, which is empty in its gaps. Plotly fills a line with gaps slantingly across them."""
    points = list(zip(line["x"], line["y"], strict=True))
    xs, ys = [], []
    for (_, before), (x, y), (_, after) in zip([("", None), *points], points, [*points[1:], ("", None)], strict=False):
        if y is not None:
            path = ([0.0] if before is None else []) + [y] + ([0.0] if after is None else [])
            xs += [x] * len(path)
            ys += path
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "line": {"width": 0},
        "fill": "tozeroy",
        "fillcolor": fade(colour, 0.15),
        "hoverinfo": "skip",
    }


def summary(points: Sequence[Lag]) -> str:
    """The lag chart as a sentence, for screen readers."""
    lags_s = [point.lag_s for point in points if point.lag_s is not None]
    if not lags_s:
        return "Lag over time: nothing measured yet"
    return f"Lag over time: now {words.duration(lags_s[-1])}, at most {words.duration(max(lags_s))}"
