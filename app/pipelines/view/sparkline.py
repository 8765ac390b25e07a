"""A small chart without axes: the lag of a pipeline as a picture beside its number."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime

from app.common.view import words
from app.common.view.health import LAG_FINE_S
from app.common.view.status_style import HEX

_WIDTH, _HEIGHT = 120, 24
LagCurve = Sequence[tuple[datetime, float | None]]
"""The largest lag in each interval, in seconds; None if it was not known."""


def picture(points: LagCurve, since: datetime, until: datetime, width_ms: int) -> str:
    """The address of an SVG of the lag.

    Its scale ends at the largest lag, but not below that of keeping up, which is dashed.

    An interval without a reading is a gap. Empty without any. width_ms: the length of an interval.
    """
    readings = [(at, value) for at, value in points if value is not None and since <= at <= until]
    if not readings:
        return ""
    top = max(LAG_FINE_S, *(value for _, value in readings))
    parts, before = [], None
    for at, value in readings:
        x = _WIDTH * (at - since).total_seconds() / max((until - since).total_seconds(), 1)
        joined = before is not None and (at - before).total_seconds() * 1000 < 1.5 * width_ms
        parts.append(f"{'L' if joined else 'M'}{x:.1f} {_y(value, top):.1f}{'' if joined else 'h.5'}")
        before = at
    fine = _y(LAG_FINE_S, top)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<path d="M0 {fine:.1f}H{_WIDTH}" stroke="{HEX["orange"]}" stroke-dasharray="3 3" fill="none"/>'
        f'<path d="{"".join(parts)}" stroke="{HEX["primary"]}" stroke-width="1.5" fill="none"/></svg>'
    )
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def _y(value: float, top: float) -> float:
    return 1.0 + (_HEIGHT - 2.0) * (1.0 - value / top)


def sentence(points: LagCurve, span: str) -> str:
    """The picture in words: `Lag of the last 30 min: at most 40 s`."""
    lags_s = [value for _, value in points if value is not None]
    return f"Lag of the last {span}: " + (f"at most {words.duration(max(lags_s))}" if lags_s else "not measured")
