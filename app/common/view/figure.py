"""Helpers for all figures. A figure is the plain dictionary that plotly takes, built without plotly."""

from datetime import datetime
from typing import Any

from app.common.view import zone

Figure = dict[str, Any]
_TEXT = "#4a5560"
"""Text in the light theme."""


def layout(height: int, **more: Any) -> dict[str, Any]:
    """A layout that keeps the zoom over an autorefresh (`uirevision`)."""
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
        "uirevision": "kept",
        "showlegend": False,
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom"},
        "hovermode": "closest",
        "bargap": 0.25,
        "dragmode": False,
    }
    return base | more


def in_light(figure: Figure) -> Figure:
    """The figure with darker text.

    Streamlit's grey has a contrast of 3.7 with a light background, and small text needs 4.5.
    """
    text = {"color": _TEXT}
    axes = {
        name: axis | {"tickfont": text, "title": {"font": text} | axis.get("title", {})}
        for name, axis in figure["layout"].items()
        if name.startswith(("xaxis", "yaxis"))
    }
    return figure | {"layout": {"font": text} | figure["layout"] | axes}


def time_axis(since: datetime | None = None, until: datetime | None = None, **more: Any) -> dict[str, Any]:
    """A time axis, in the chosen time zone."""
    axis: dict[str, Any] = {"type": "date", "automargin": True}
    if since and until:
        axis["range"] = [iso(since), iso(until)]
    return axis | more


def iso(at: datetime) -> str:
    """A time for plotly: local time of the chosen time zone, without an offset."""
    return zone.local(at).replace(tzinfo=None).isoformat(timespec="milliseconds")


def fade(colour: str, share: float) -> str:
    """A hex colour with an alpha."""
    red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def pale(colour: str) -> str:
    """A hex colour mixed with white, on which dark text can be read in both themes."""
    parts = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * 0.4):02x}" for part in parts)
