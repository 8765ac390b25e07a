"""Runs side by side: results, throughput, and differences in configuration."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from app.common.view import words
from app.common.view.figure import Figure, layout
from app.common.view.status_style import HEX
from app.history.view.past import PastRun
from app.live.view.curves import row_rates
from app.live.view.reader_timeline import spreads
from app.live.view.spec_state import ABSENT, flat
from engine.history.chunk_queries import Read

_COLOURS = ("primary", "violet", "orange", "green", "red")
MOST = len(_COLOURS)
_BUCKETS = 120


def measures(lines: Sequence[PastRun], reads: Mapping[str, Sequence[Read]]) -> list[dict[str, str]]:
    """One row per measure, one column per run in the order of `lines`. reads: the chunks that each run read.

    Numbers of later runs have their difference from the earliest run, the baseline, in per cent.
    """
    base = baseline(lines)
    rows = {
        "Outcome": [line.outcome for line in lines],
        "Duration": _against(base, [line.duration_s for line in lines], words.duration),
        "Rows": _against(base, [line.rows for line in lines], words.count),
        "Rows a second": _against(base, [line.rows_s for line in lines], words.count),
        "Chunks": _against(base, [line.chunks for line in lines], words.count),
        "Changes": _against(base, [line.changes for line in lines], words.count),
        "Errors": [f"{line.errors:,}" for line in lines],
        "Readers": [f"{len({read.reader for read in reads[line.run]}):,}" for line in lines],
    }
    for n, spread in enumerate(spreads([])):
        values = [spreads(reads[line.run])[n].values for line in lines]
        rows[f"{spread.name}, median"] = [five[2] for five in values]
        rows[f"{spread.name}, most"] = [five[4] for five in values]
    return [{"": name, **dict(zip(names(lines), values, strict=True))} for name, values in rows.items()]


def baseline(lines: Sequence[PastRun]) -> int:
    """Which run the others are compared with: the earliest."""
    return min(range(len(lines)), key=lambda n: lines[n].started)


def _against(base: int, values: Sequence[float | None], text: Callable[[float | None], str]) -> list[str]:
    first = values[base]
    return [
        text(value) if n == base or not first or value is None else _difference(text(value), value, first)
        for n, value in enumerate(values)
    ]


def _difference(text: str, value: float, first: float) -> str:
    return text if value == first else f"{text} ({value / first - 1:+.0%})"


def folded(rows: Sequence[Mapping[str, str]]) -> tuple[list[Mapping[str, str]], list[str]]:
    """The measures in which runs differ, and the names of those in which all are the same.

    A single run has no differences.
    """
    same = [row[""] for row in rows if len(row) > 2 and len(set(list(row.values())[1:])) == 1]
    return [row for row in rows if row[""] not in same], same


def names(lines: Sequence[PastRun]) -> list[str]:
    """A unique name for each run, with its pipeline if there are several."""
    several = len({line.pipeline for line in lines}) > 1
    run_names = [f"{line.pipeline} {line.run}" if several else line.run for line in lines]
    return [name if run_names.index(name) == n else f"{name} ({n})" for n, name in enumerate(run_names)]


def differences(lines: Sequence[PastRun], specs: Sequence[str | None]) -> list[dict[str, str]]:
    """The settings in which the runs differ, one row each. specs: JSON, as in the journal."""
    flat_specs = [flat(json.loads(spec)) if spec else {} for spec in specs]
    keys = sorted({key for settings in flat_specs for key in settings})
    rows = [{"Setting": key, **_values(key, lines, flat_specs)} for key in keys]
    return [row for row in rows if len(set(list(row.values())[1:])) > 1]


def _values(key: str, lines: Sequence[PastRun], flat: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {name: settings.get(key, ABSENT) for name, settings in zip(names(lines), flat, strict=True)}


def figure(lines: Sequence[PastRun], reads: Mapping[str, Sequence[Read]]) -> Figure:
    """Rows per second over the time since the first chunk of each run."""
    data = []
    for line, name, colour in zip(lines, names(lines), _COLOURS, strict=False):
        own = reads[line.run]
        if not own:
            continue
        since, until = min(read.started for read in own), max(read.ended for read in own)
        width = max(int((until - since).total_seconds() * 1000 / _BUCKETS), 500)
        times, rates = row_rates(own, since, until + timedelta(milliseconds=width), width)
        seconds = [(time - since).total_seconds() for time in times]
        trace = {"type": "scatter", "mode": "lines", "name": name, "x": seconds, "y": rates}
        data.append(
            {**trace, "line": {"color": HEX[colour], "width": 2}, "hovertemplate": "%{y:.3s} rows/s at %{x:.0f} s"}
        )
    axes = {
        "xaxis": {"title": {"text": "seconds since the first chunk"}, "automargin": True},
        "yaxis": {"rangemode": "tozero", "tickformat": "~s", "automargin": True},
    }
    return {"data": data, "layout": layout(280, showlegend=True, **axes)}
