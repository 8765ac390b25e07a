"""The timeline of a run: a strip with what it did, above its curves, on one time axis with one crosshair."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

from app.common.view import words, zone
from app.common.view.figure import Figure, fade, iso, layout, pale, time_axis
from app.common.view.status_style import HEX
from app.live.view.curves import Curve, Threshold
from app.live.view.run_timeline import COLOURS, ROWS, Instant, Span, name_of

_STRIP, _CURVE, _GAP, _EDGE = 26, 96, 22, 44
"""Heights in pixels: of a row of the strip, of a curve, between them, and of the margins together."""
_USUAL_WIDTH, _LETTER = 1000, 6
"""Pixels of the time axis on a usual screen, and of a letter."""
_TEXT = "#0d171e"
_ROW_COLOURS = {
    "Pauses": HEX["violet"],
    "Outages": HEX["orange"],
    "Redumps": HEX["blue"],
    "Schema changes": HEX["primary"],
    "Restarts": HEX["gray"],
    "Alerts": HEX["red"],
}
_SYMBOLS = {"Schema changes": "diamond", "Restarts": "triangle-right", "Outages": "x", "Alerts": "square"}
_LEAST_BYTES = 4
"""The scale of a lag in bytes reaches at least this far."""
_PLACES = ("end", "middle", "start")
"""Where the names of a curve's thresholds stand, in turn."""
_LEVEL_SHOWN = 2.0
"""A threshold is drawn up to this many times the highest value. Further above, it would flatten the curve."""


def figure(
    spans: Sequence[Span],
    marks: Sequence[Instant],
    curves: Sequence[Curve],
    levels: Sequence[Threshold],
    since: datetime,
    until: datetime,
) -> Figure:
    """The rows that have something to show. spans: cut to the time shown. marks: inside of it."""
    used_rows = {span.row for span in spans} | {one.row for one in marks}
    rows = [row for row in ROWS if row in used_rows]
    height = len(rows) * _STRIP + len(curves) * (_CURVE + _GAP)
    x_axis = time_axis(
        since,
        until,
        anchor=f"y{len(curves) + 1}" if curves else "y",
        showspikes=True,
        spikemode="across",
        spikesnap="cursor",
        spikethickness=1,
        spikedash="solid",
        spikecolor=HEX["gray"],
        hoverformat=f"%H:%M:%S {zone.name()}",
    )
    longest_first = sorted(spans, key=lambda span: span.begin - span.end)  # a shorter one is drawn over a longer one
    by_row = [[span for span in longest_first if span.row == row] for row in rows]
    length_s = (until - since).total_seconds()
    data = [_bars(own, n, length_s) for n, own in enumerate(by_row) if own] + _symbols(marks, rows)
    axes: Figure = {"yaxis": _strip_axis(rows, height)}
    for n, curve in enumerate(curves):
        top = len(rows) * _STRIP + n * (_CURVE + _GAP) + _GAP
        axes[f"yaxis{n + 2}"] = _axis(curve, 1 - (top + _CURVE) / height, 1 - top / height)
        data += [part | {"yaxis": f"y{n + 2}"} for part in (curve.area, curve.line) if part is not None]
    shapes = [*_bands(spans), *_lines(marks), *_levels(curves, levels)]
    return {
        "data": data,
        "layout": layout(
            max(height, 1) + _EDGE,
            xaxis=x_axis,
            shapes=shapes,
            hovermode="x",
            hoversubplots="axis",
            barmode="overlay",
            margin={"l": 8, "r": 8, "t": 8, "b": 8},
            **axes,
        ),
    }


def _strip_axis(rows: Sequence[str], height: int) -> Figure:
    return {
        "domain": [max(1 - len(rows) * _STRIP / height, 0) if height else 0, 1],
        "range": [len(rows) - 0.5, -0.5],
        "tickmode": "array",
        "tickvals": list(range(len(rows))),
        "ticktext": list(rows),
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "visible": bool(rows),
    }


def _axis(curve: Curve, low: float, high: float) -> Figure:
    return {
        "domain": [max(low, 0), high],
        "title": {"text": curve.title},
        # Parts of a byte are no scale.
        **(
            {"range": [0, _LEAST_BYTES]}
            if curve.title == "lag, B" and curve.most < _LEAST_BYTES
            else {"rangemode": "tozero"}
        ),
        "automargin": True,
        "tickformat": curve.ticks,
        "nticks": 4,
    }


def _bars(spans: Sequence[Span], row: int, length_s: float) -> Figure:
    """The spans of a row. Each has its name in its bar where it fits, so that nothing is said by colour alone.

    length_s: the time shown.
    """
    phases = spans[0].row == "Phase"
    colours = [COLOURS.get(span.name, HEX["gray"]) if phases else _ROW_COLOURS[span.row] for span in spans]
    lengths = [(span.end - span.begin).total_seconds() for span in spans]
    return {
        "type": "bar",
        "orientation": "h",
        "base": [iso(span.begin) for span in spans],
        "x": [seconds * 1000 for seconds in lengths],
        "y": [row] * len(spans),
        "width": 0.7,
        "name": spans[0].row,
        "text": _labels(spans, length_s),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "constraintext": "none",
        "textangle": 0,
        "textfont": {"size": 11, "color": _TEXT},
        "marker": {"color": [pale(colour) for colour in colours], "line": {"width": 1, "color": colours}},
        "customdata": [
            [
                name_of(span.moment) if span.moment else None,
                (
                    f"{_plain(span.name)}<br>{iso(span.begin)[11:19]}–{iso(span.end)[11:19]} {zone.name()}, "
                    f"{words.duration(seconds)}"
                ),
            ]
            for span, seconds in zip(spans, lengths, strict=True)
        ],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
    }


def _labels(spans: Sequence[Span], length_s: float) -> list[str]:
    """The name of each span, in the middle of its bar; empty where it does not fit, or a later bar covers it.

    Spans of a row may overlap: two alerts fire at once.
    """
    a_letter_s = length_s / _USUAL_WIDTH * _LETTER
    labels = []
    for n, span in enumerate(spans):
        name = span.name.partition(":")[0]
        middle, half = span.begin + (span.end - span.begin) / 2, timedelta(seconds=len(name) * a_letter_s / 2)
        low, high = middle - half, middle + half
        covered = any(other.begin < high and low < other.end for other in spans[n + 1 :])
        labels.append(_plain(name) if span.begin < low and not covered else "")
    return labels


def _symbols(marks: Sequence[Instant], rows: Sequence[str]) -> list[Figure]:
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "cliponaxis": False,
            "name": row,
            "x": [iso(one.at) for one in marks if one.row == row],
            "y": [n for one in marks if one.row == row],
            "marker": {
                "symbol": _SYMBOLS.get(row, "circle"),
                "size": 11,
                "color": _ROW_COLOURS[row],
                "line": {"width": 1, "color": HEX["gray"]},
            },
            "text": [_plain(one.name) for one in marks if one.row == row],
            "customdata": [[name_of(one.moment)] for one in marks if one.row == row],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for n, row in enumerate(rows)
        if any(one.row == row for one in marks)
    ]


def _bands(spans: Sequence[Span]) -> list[Figure]:
    """Pauses, outages and the time without a runner explain gaps and flat curves, so all rows show them."""
    return [
        {
            "type": "rect",
            "x0": iso(span.begin),
            "x1": iso(span.end),
            "y0": 0,
            "y1": 1,
            "xref": "x",
            "yref": "paper",
            "fillcolor": fade(HEX["gray"], 0.14),
            "line": {"width": 0},
            "layer": "below",
        }
        for span in spans
        if span.row in ("Pauses", "Outages") or span.name == "no runner"
    ]


def _lines(marks: Sequence[Instant]) -> list[Figure]:
    return [
        {
            "type": "line",
            "x0": iso(one.at),
            "x1": iso(one.at),
            "y0": 0,
            "y1": 1,
            "xref": "x",
            "yref": "paper",
            "line": {"width": 1, "dash": "dot", "color": HEX["gray"]},
        }
        for one in marks
    ]


def _levels(curves: Sequence[Curve], levels: Sequence[Threshold]) -> list[Figure]:
    lines = []
    for n, curve in enumerate(curves):
        visible_levels = [one for one in levels if one.unit == curve.title and one.value <= curve.most * _LEVEL_SHOWN]
        lines += [_level(one, f"y{n + 2}", place) for one, place in zip(visible_levels, cycle(_PLACES), strict=False)]
    return lines


def _level(level: Threshold, axis: str, place: str) -> Figure:
    """A dashed line across a curve, with its name at this place, so that names of near lines do not overlap."""
    ends = {"x0": 0, "x1": 1, "y0": level.value, "y1": level.value, "xref": "paper", "yref": axis}
    label = {
        "text": level.name,
        "textposition": place,
        "yanchor": "bottom",
        "font": {"size": 10},
    }
    return {"type": "line", **ends, "line": {"width": 1.5, "dash": "dash", "color": level.colour}, "label": label}


def event_of(point: Mapping[str, Any]) -> str | None:
    """The event of a clicked point, as in an address; None if it belongs to a curve."""
    custom_data = point.get("customdata")
    first = custom_data[0] if isinstance(custom_data, list | tuple) and custom_data else None
    return first if isinstance(first, str) else None


def _plain(text: str) -> str:
    """A text in a figure, where Plotly takes some HTML for markup and `%{…}` for a value."""
    short = text if len(text) <= 120 else f"{text[:119]}…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "% {").replace("\n", " ")


def alt(spans: Sequence[Span], lag: str) -> str:
    """The figure as a sentence, for screen readers: the newest spans, and the lag."""
    newest = [
        f"{span.name.partition(':')[0]} for {words.duration((span.end - span.begin).total_seconds())}"
        for span in sorted(spans, key=lambda span: span.begin)[-5:]
    ]
    return f"Timeline: {', '.join(newest) or 'nothing happened'}. {lag}"
