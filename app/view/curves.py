"""Lag and throughput over time, annotated with starts, pauses and source events."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.view import words, zone
from app.view.figure import Figure, fade, iso, layout, time_axis
from app.view.progress import overlap_rows
from app.view.status_style import HEX
from engine.history.chunk_queries import Read
from engine.history.series import Epoch, Lag, Mark

POINTS = 240
"""About as many points as a chart can show."""
_WHOLE = 10.0
"""Smaller rates are labelled with decimals."""
_GAP_WIDTHS = 3.5
"""Readings further apart than this many bucket widths are not joined by a line, because nothing was measured in between."""


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
    wanted = (until - since).total_seconds() * 1000 / POINTS
    return max(finest_ms, int(-(-wanted // finest_ms)) * finest_ms)


def lag_figure(points: Sequence[Lag], marks: Sequence[Mark], since: datetime, until: datetime, width: int) -> Figure:
    """Seconds above, bytes below, on one time axis. A gap means that nothing was measured."""
    times = [point.ts for point in points]
    seconds = _line("lag, seconds", HEX["primary"], times, [point.lag_s for point in points], width, "%{y:.2f} s")
    size = _line("lag, bytes", HEX["violet"], times, [point.lag_bytes for point in points], width, "%{y:.3s}B")
    size["yaxis"] = "y2"
    units = ("seconds", ""), ("bytes", "~s")
    return {"data": [seconds, size], "layout": _two_rows(marks, since, until, units, (times, times))}


def throughput_figure(
    reads: Sequence[Read],
    epochs: Sequence[Epoch],
    marks: Sequence[Mark],
    shown: tuple[datetime, datetime],
    lives: Sequence[tuple[datetime, datetime]],
    width: int,
) -> Figure:
    """Rows copied per second above, changes committed per second below.

    shown: begin and end of the chart. lives: for each run, the time from its first to its last event. Outside of these a rate is
    unknown, not 0.
    """
    since, until = shown
    row_times, rows = row_rates(reads, since, until, width)
    change_times, changes = change_rates(epochs, since, until, width)
    rows, changes = _heard(row_times, rows, lives, width), _heard(change_times, changes, lives, width)
    row_ticks, change_ticks = _number_format(rows), _number_format(changes)
    upper = _line("rows copied", HEX["blue"], row_times, rows, width, f"%{{y:{row_ticks}}} rows/s", fill=True)
    lower = _line("changes", HEX["green"], change_times, changes, width, f"%{{y:{change_ticks}}} changes/s", fill=True)
    lower["yaxis"] = "y2"
    units = ("rows/s", row_ticks), ("changes/s", change_ticks)
    return {"data": [upper, lower], "layout": _two_rows(marks, since, until, units, (row_times, change_times))}


def _number_format(rates: Sequence[float | None]) -> str:
    """With SI prefixes; small rates with decimals, because half a change would be `500m`."""
    return ".3~s" if max((rate for rate in rates if rate is not None), default=0.0) >= _WHOLE else ".2~f"


def _two_rows(
    marks: Sequence[Mark],
    since: datetime,
    until: datetime,
    units: tuple[tuple[str, str], ...],
    times: tuple[Sequence[datetime], ...],
) -> Figure:
    """Two curves above each other on one time axis.

    units: title and number format of each. times: those of the points; a curve without a point in the time shown gets no scale,
    because a reader would take 0 from it.
    """
    shapes, annotations = annotate(marks, since, until)
    upper, lower = (
        {
            "title": {"text": title},
            "domain": domain,
            "rangemode": "tozero",
            "automargin": True,
            "tickformat": ticks,
            "showticklabels": any(since <= at <= until for at in points),
        }
        for (title, ticks), domain, points in zip(units, ([0.56, 1], [0, 0.44]), times, strict=True)
    )
    x_axis = time_axis(since, until, anchor="y2")
    return layout(300, xaxis=x_axis, yaxis=upper, yaxis2=lower, shapes=shapes, annotations=annotations)


def row_rates(
    reads: Sequence[Read], since: datetime, until: datetime, width: int
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
    filled = [n for n, total in enumerate(sums) if total]
    if not filled:
        return [], []
    # Outside of the copy there is no measurement, so no rate of 0 either.
    shown = range(filled[0], filled[-1] + 1)
    return [since + (n + 0.5) * step for n in shown], [sums[n] / step.total_seconds() for n in shown]


def change_rates(
    epochs: Sequence[Epoch], since: datetime, until: datetime, width: int
) -> tuple[list[datetime], list[float | None]]:
    """Changes per second in each bucket; an epoch's changes are spread over the time since the last epoch, at most 4 buckets."""
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


def annotate(marks: Sequence[Mark], since: datetime, until: datetime) -> tuple[list[Figure], list[Figure]]:
    """A band for each interval that was paused or without a runner, and a line for each event."""
    shapes, annotations, labelled = [], [], []
    for start, end, name in bands(marks, since, until):
        corners = {"x0": iso(start), "x1": iso(end), "y0": 0, "y1": 1, "xref": "x", "yref": "paper"}
        shapes.append(
            {"type": "rect", **corners, "fillcolor": fade(HEX["gray"], 0.18), "line": {"width": 0}, "layer": "below"}
        )
        if (end - start) > (until - since) / 14:
            annotations.append(_note(start + (end - start) / 2, name, "center"))
    for mark in marks:
        text = mark_words(mark)
        if text and since <= mark.ts <= until:
            where = {"x0": iso(mark.ts), "x1": iso(mark.ts), "y0": 0, "y1": 1, "xref": "x", "yref": "paper"}
            shapes.append({"type": "line", **where, "line": {"width": 1, "dash": "dot", "color": HEX["gray"]}})
            labelled.append((mark.ts, text))
    annotations += [_note(at, text, "left") for at, text in together(labelled, (until - since) / 10)]
    return shapes, annotations


def together(labels: Sequence[tuple[datetime, str]], apart: timedelta) -> list[tuple[datetime, str]]:
    """Merge labels that are closer than `apart`, as they would overlap."""
    groups: list[tuple[datetime, list[str]]] = []
    for at, text in labels:
        if groups and at - groups[-1][0] < apart:
            groups[-1][1].append(text)
        else:
            groups.append((at, [text]))
    return [(at, texts[0] if len(texts) == 1 else f"{texts[0]}, {len(texts) - 1} more") for at, texts in groups]


def bands(marks: Sequence[Mark], since: datetime, until: datetime) -> list[tuple[datetime, datetime, str]]:
    """(from, to, label) of the intervals in which the pipeline was paused or had no runner."""
    found, began, name = [], None, ""
    for mark in marks:
        still = {"run.ended": "no runner"}.get(mark.event) or ("paused" if mark.label == "paused" else "")
        if began is not None and not still:
            found.append((max(began, since), mark.ts, name))
            began = None
        elif began is None and still:
            began, name = mark.ts, still
    if began is not None and began < until:
        found.append((max(began, since), until, name))
    return [band for band in found if band[1] > band[0]]


def mark_words(mark: Mark) -> str:
    """The label of a mark; empty for a mark that a band shows."""
    if mark.event == "run.started":
        return "started"
    if mark.event == "source.event":
        return mark.label
    return ""


def _note(at: datetime, text: str, anchor: str) -> Figure:
    return {
        "x": iso(at),
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "yanchor": "bottom",
        "xanchor": anchor,
        "text": text,
        "showarrow": False,
        "font": {"size": 11, "color": HEX["gray"]},
    }


def _line(
    name: str,
    colour: str,
    times: Sequence[datetime],
    values: Sequence[float | None],
    width: int,
    hover: str,
    *,
    fill: bool = False,
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
    line: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": xs,
        "y": ys,
        "line": {"color": colour, "width": 1.8},
        "connectgaps": False,
        "hovertemplate": f"{hover}<br>%{{x|%H:%M:%S}} {zone.name()}<extra></extra>",
    }
    return line | ({"fill": "tozeroy", "fillcolor": fade(colour, 0.15)} if fill else {})


def summary(points: Sequence[Lag]) -> str:
    """The lag chart as a sentence, for screen readers."""
    known = [point.lag_s for point in points if point.lag_s is not None]
    if not known:
        return "Lag over time: nothing measured yet"
    return f"Lag over time: now {words.duration(known[-1])}, at most {words.duration(max(known))}"
