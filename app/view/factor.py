"""The distribution factor of each table, against the bounds within which the key is split evenly."""

import math
from collections.abc import Sequence

from app.view import words
from app.view.figure import Figure, fade, layout
from app.view.status_style import HEX
from engine.history.table_queries import Plan

MOST = 20
"""More tables would make the figure taller than a screen."""


def drawn(plans: Sequence[Plan], lower: float, upper: float) -> list[Plan]:
    """The tables for the figure: first those outside the bounds, then by rows."""
    known = [plan for plan in plans if plan.distribution_factor]
    known.sort(key=lambda plan: (lower <= (plan.distribution_factor or 0) <= upper, -(plan.approx_rows or 0)))
    return known[:MOST]


def figure(plans: Sequence[Plan], lower: float, upper: float) -> Figure:
    """One row per table on a logarithmic axis: a marker at its factor, and a band between the bounds."""
    known = [plan for plan in plans if plan.distribution_factor is not None and plan.distribution_factor > 0]
    factors = [plan.distribution_factor or 1.0 for plan in known]
    inside = [lower <= value <= upper for value in factors]
    points: Figure = {
        "type": "scatter",
        "mode": "markers+text",
        "x": factors,
        "y": [plan.table for plan in known],
        "text": [f"{value:.4g}" for value in factors],
        "textposition": "top center",
        "marker": {
            "size": 12,
            "symbol": ["circle" if ok else "x" for ok in inside],
            "color": [HEX["green"] if ok else HEX["orange"] for ok in inside],
        },
        "customdata": [[plan.strategy or words.NOTHING, plan.reason or words.NOTHING] for plan in known],
        "hovertemplate": "%{y}: %{x:.4g}<br>%{customdata[0]}: %{customdata[1]}<extra></extra>",
    }
    band = {"type": "rect", "x0": lower, "x1": upper, "y0": 0, "y1": 1, "xref": "x", "yref": "paper", "layer": "below"}
    band |= {"fillcolor": fade(HEX["green"], 0.12), "line": {"width": 1, "color": HEX["green"], "dash": "dot"}}
    y_axis = {"type": "category", "automargin": True, "range": [len(known) - 0.4, -0.7], "showgrid": False}
    fixed = {"y": 1, "xref": "x", "yref": "paper", "yanchor": "bottom", "showarrow": False}
    notes = [fixed | {"x": _log10(at), "text": f"{at:g}"} for at in (lower, upper)]
    height = 100 + 46 * max(len(known), 1)
    return {
        "data": [points],
        "layout": layout(
            height, showlegend=False, xaxis=_axis(lower, upper, factors), yaxis=y_axis, shapes=[band], annotations=notes
        ),
    }


def _axis(lower: float, upper: float, factors: Sequence[float]) -> Figure:
    """A logarithmic axis that covers the bounds and all factors, with a tick for each power of ten."""
    low, high = min([lower, *factors]) / 3, max([upper, *factors]) * 3
    ticks = _decades(low, high)
    axis: Figure = {"type": "log", "title": {"text": "distribution factor: (max − min + 1) / rows"}, "automargin": True}
    return axis | {"range": [_log10(low), _log10(high)], "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _log10(value: float) -> float:
    return math.log10(value)


def _decades(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(math.ceil(_log10(low)), math.floor(_log10(high)) + 1)]
