"""The cards of the list of pipelines: six facts and, if there is one, the problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.view import words
from app.view.health import Layer, Runner, phase_words
from app.view.progress import copying, rows_per_s, share
from engine.history.chunk_queries import Read
from engine.history.series import Epoch, Lag
from engine.history.table_queries import Progress

CHANGES_S = 60.0
"""The window for the rate of changes."""
_FIRST = ("failed", "lost", "stopping", "starting", "running", "paused", "new", "ended")


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: str
    colour: str = ""
    """Red or orange by urgency, gray for a stale value, else empty."""


@dataclass(frozen=True)
class Card:
    """The card of a pipeline."""

    name: str
    runner: Runner
    phase: str
    """The phase in plain words; empty unless the runner is running."""
    facts: tuple[Fact, ...]
    trouble: str
    """The most urgent problem; empty if there is none."""


def order(one: Card) -> tuple[int, str]:
    """The sort key: pipelines that need attention come first."""
    return _FIRST.index(one.runner.state), one.name


def card_of(
    name: str,
    runner: Runner,
    layers: tuple[Layer, Layer, Layer],
    lag: Lag | None,
    tables: Sequence[Progress],
    reads: Sequence[Read],
    epochs: Sequence[Epoch],
    now: datetime,
) -> Card:
    """The card of one pipeline. epochs: those of the last `CHANGES_S`."""
    _, keeping_up, source = layers
    stale = "" if runner.alive else "gray"
    live = runner.alive and runner.state == "running"
    rows_s = rows_per_s(reads, now) if copying(tables, live=live) else None
    facts = (
        Fact("Copied", words.percent(share(tables)), stale),
        Fact("Reading", words.rate(rows_s, "rows"), stale),
        Fact("Changes", words.rate(_changes_per_s(epochs, runner, now) if live else None, "changes"), stale),
        Fact("Lag", words.duration(lag.lag_s) if lag else words.NOTHING, _colour(keeping_up)),
        Fact("Retention left", words.duration(lag.runway_s) if lag else words.NOTHING, _colour(source)),
        Fact("Heartbeat", _heartbeat(runner, now), stale),
    )
    return Card(name, runner, phase_words(runner) if live else "", facts, _trouble(runner, tables, keeping_up, source))


def _changes_per_s(epochs: Sequence[Epoch], runner: Runner, now: datetime) -> float:
    """Over the last `CHANGES_S`, or since the runner started if that is later."""
    since = max(now - timedelta(seconds=CHANGES_S), runner.started or now - timedelta(seconds=CHANGES_S))
    return sum(epoch.changes for epoch in epochs if epoch.ts > since) / max((now - since).total_seconds(), 1.0)


def _heartbeat(runner: Runner, now: datetime) -> str:
    if runner.alive:
        return f"{words.duration(runner.heartbeat_age_s)} ago"
    return f"{words.duration((now - runner.last_seen).total_seconds())} ago" if runner.last_seen else words.NOTHING


def _colour(layer: Layer) -> str:
    return layer.colour if layer.colour in ("red", "orange", "gray") else ""


def _trouble(runner: Runner, tables: Sequence[Progress], *layers: Layer) -> str:
    if runner.state == "failed" and runner.error:
        return runner.error["message"]
    if runner.state == "lost":
        return f"The heartbeat stopped at {words.date_time(runner.last_seen)}; nothing is being read."
    stopped = [table.table for table in tables if table.state == "stopped"]
    if stopped:
        return f"Stopped, while the others continue: {', '.join(stopped)}"
    red = [layer for layer in layers if layer.colour == "red"]
    return f"{red[0].headline}: {', '.join(red[0].details)}" if red else ""
