"""Watermark windows drawn over the binlog, widest first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.common.view import words
from app.common.view.figure import Figure, layout
from app.common.view.status_style import HEX
from engine.history.chunk_queries import Window

BinlogPlace = tuple[str, int]
"""Binlog file and offset in it."""


def place(position: str) -> BinlogPlace | None:
    """Parse `file:offset`; None for any other format."""
    file, _, offset = position.rpartition(":")
    return (file, int(offset)) if file and offset.isdigit() else None


def axis(places: Iterable[BinlogPlace]) -> dict[str, int]:
    """Where each binlog file begins on one common axis of bytes.

    The journal does not have the sizes of the files, so a file is drawn up to the largest offset seen in it. The order
    of all positions and the distances within a file are exact.
    """
    largest: dict[str, int] = {}
    for file, offset in places:
        largest[file] = max(largest.get(file, 0), offset)
    starts, end = {}, 0
    for file in sorted(largest, key=lambda name: (len(name), name)):
        starts[file] = end
        end += largest[file]
    return starts


def figure(windows: Sequence[Window]) -> Figure:
    """One bar per window, from the low to the high watermark, labelled with the number of changes that were merged.

    Each has a row of its own: a chunk that was read in several snapshots has several windows, whose labels would
    overlap.
    """
    placed_windows = [(w, low, high) for w in windows if (low := place(w.low)) and (high := place(w.high))]
    starts = axis([low for _, low, _ in placed_windows] + [high for _, _, high in placed_windows])
    names = [f"{w.table} {w.chunk}" for w, _, _ in placed_windows]
    begins = [starts[low[0]] + low[1] for _, low, _ in placed_windows]
    ends = [starts[high[0]] + high[1] for _, _, high in placed_windows]
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(names))),
        "base": begins,
        "x": [end - begin for begin, end in zip(begins, ends, strict=True)],
        "marker": {"color": HEX["primary"], "line": {"width": 1, "color": HEX["primary"]}},
        "text": [words.plural(w.changes, "change") for w, _, _ in placed_windows],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [[w.low, w.high, _gap(w), w.table, w.chunk] for w, _, _ in placed_windows],
        "hovertemplate": "%{customdata[3]} %{customdata[4]}<br>low %{customdata[0]}<br>high %{customdata[1]}<br>"
        "gap %{customdata[2]}, %{text}<extra></extra>",
    }
    y_axis: Figure = {
        "range": [max(len(names), 1) - 0.5, -0.5],
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "automargin": True,
    }
    return {
        "data": [bars],
        "layout": layout(
            70 + 22 * max(len(names), 2), showlegend=False, xaxis=_bytes_axis(starts, begins, ends), yaxis=y_axis
        ),
    }


def rows(windows: Sequence[Window]) -> list[dict[str, Any]]:
    """The windows as the rows of a table."""
    return [
        {
            "Table": w.table,
            "Chunk": w.chunk,
            "Low watermark": w.low,
            "High watermark": w.high,
            "Gap": _gap(w),
            "Changes": words.count(w.changes),
        }
        for w in windows
    ]


def _gap(window: Window) -> str:
    return "over several files" if window.gap_bytes is None else words.size(window.gap_bytes)


def chunk_of(point: Mapping[str, Any]) -> tuple[str, int] | None:
    """The table and the chunk of a clicked bar; None if the figure does not have it."""
    match list(point.get("customdata") or ()):
        case [_, _, _, str(table), int(chunk)]:
            return table, chunk
    return None


def note(count: int, most: int, table: str | None) -> str:
    """Which windows the figure has. most: the largest number that it can have."""
    of = f" of {table}" if table else ""
    which = (
        f"The {count:,} widest windows{of}."
        if count >= most
        else f"All {words.plural(count, 'window')}{of}, widest first."
    )
    return f"{which} A click on a bar opens its chunk."


def _bytes_axis(starts: dict[str, int], begins: Sequence[int], ends: Sequence[int]) -> Figure:
    """Offsets for a single file, else one tick per file; with room for the labels beside the bars."""
    ticks = sorted(starts.items(), key=lambda item: item[1])
    many = len(ticks) > 1
    x_axis: Figure = {
        "title": {"text": "binlog position" if many else f"offset in {ticks[0][0]}" if ticks else ""},
        "automargin": True,
    }
    if many:
        x_axis |= {"tickvals": [start for _, start in ticks], "ticktext": [file for file, _ in ticks]}
    else:
        x_axis |= {"tickformat": ".6~s", "ticksuffix": "B"}
    if begins:
        room = max((max(ends) - min(begins)) * 0.12, 1)
        x_axis["range"] = [min(begins) - room / 4, max(ends) + room]
    return x_axis
