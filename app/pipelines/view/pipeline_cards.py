"""The cards of the list of pipelines: six facts and, if there is one, the problem."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.common.view import words
from app.common.view.alert_list import Firing, alert_lines, kinds_of_state
from app.common.view.alert_list import order as alert_order
from app.common.view.health import (
    LAG_FINE_S,
    RETENTION_AMBER_S,
    Layer,
    lag_words,
    phase_words,
    position_lost,
    retention_left_s,
)
from app.common.view.progress import copying, others_work, rows_per_s, share
from app.common.view.runner_view import Runner, away_line
from app.common.view.status_style import PIPELINE, Style, who_acts
from engine.base.wording import rows_differ
from engine.history.chunk_queries import Read
from engine.history.series import Epoch, Lag
from engine.history.table_queries import TableProgress

CHANGES_S = 60.0
"""The window for the rate of changes."""
_ALERTS = 4
"""More alerts of a card are only counted."""
_FIRST = (
    "failed",
    "lost",
    "frozen",
    "full",
    "read_only",
    "forbidden",
    "store_refused",
    "silent_spark",
    "table_stopped",
    "refused",
    "privileges",
    "away",
    "store_away",
    "stopping",
    "starting",
    "running",
    "paused",
    "new",
    "ended",
)


@dataclass(frozen=True)
class LabelledValue:
    """A labelled value."""

    label: str
    value: str
    colour: str = ""
    """Red or orange by urgency, gray for a stale value, else empty."""


@dataclass(frozen=True)
class _Trouble:
    """The most urgent problem of a pipeline. Its text is empty if there is none."""

    text: str = ""
    stopped_tables: tuple[str, ...] = ()
    """The stopped tables that the text names."""


@dataclass(frozen=True)
class Card:
    """The card of a pipeline."""

    name: str
    runner: Runner
    phase: str
    """The phase in plain words; empty unless the runner is running."""
    facts: tuple[LabelledValue, ...]
    trouble: str
    """The most urgent problem; empty if there is none."""
    source: str = ""
    """The source's host and port; empty if the spec cannot be read."""
    stopped: tuple[str, ...] = ()
    """The stopped tables."""
    tags: tuple[str, ...] = ()
    alerts: tuple[Firing, ...] = ()
    """The alerts that *Live* shows and `trouble` does not say, those that need attention first."""
    stop_reason: str = ""
    """Why the first stopped table stopped, if `trouble` names the stopped tables."""

    @property
    def shown_state(self) -> str:
        """The key of `status_style.PIPELINE`.

        The runner's, or "table_stopped" if it works but does not follow every table.
        """
        return "table_stopped" if self.stopped and self.runner.works else self.runner.shown_state

    @property
    def style(self) -> Style:
        """How the state is shown."""
        return PIPELINE[self.shown_state]

    @property
    def problem(self) -> bool:
        """Whether something is wrong; a pause is not, nor an alert that somebody has acknowledged."""
        own = bool(self.trouble) and self.trouble_colour != "violet"
        return own or any(one.waits for one in self.alerts)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The problems, the most urgent first, each with its colour."""
        own = [(self.trouble_colour, text) for text in (self.trouble, self.stop_reason) if text]
        more = len(self.alerts) - _ALERTS
        rest = [("gray", f"{words.plural(more, 'more alert')}; see the page Alerts")] if more > 0 else []
        return [*own, *alert_lines(self.alerts[:_ALERTS]), *rest]

    @property
    def trouble_colour(self) -> str:
        """Red if an operator must act."""
        if self.runner.away is not None:
            return self.runner.away.colour
        if self.runner.unwritten and self.trouble == self.runner.unwritten.line:
            return self.runner.unwritten.colour
        return "violet" if self.trouble == _paused(self.runner) else "red"

    @property
    def who(self) -> str:
        """Who acts on the problem; empty without one. A pause waits for an operator too."""
        if self.trouble:
            return who_acts(self.trouble_colour) or "you"
        return "you" if self.problem else ""


def order(one: Card) -> tuple[int, str]:
    """The sort key: pipelines that need attention come first."""
    place = _FIRST.index(one.shown_state)
    if any(alert.waits and alert.critical for alert in one.alerts):
        place = min(place, _FIRST.index("table_stopped"))
    return place, one.name


def matches(one: Card, text: str, labels: Collection[str] = ()) -> bool:
    """Whether a card has all words of a text, and one of some labels of states (empty: any).

    The words may be in its name, source, state or tags.
    """
    card_text = " ".join((one.name, one.source, one.style.label, *one.tags)).casefold()
    return all(word in card_text for word in text.casefold().split()) and (not labels or one.style.label in labels)


def by_source(cards: Iterable[Card]) -> dict[str, list[Card]]:
    """The cards by source, in their order; the source whose first card is the most urgent comes first."""
    cards_by_source: dict[str, list[Card]] = {}
    for one in cards:
        cards_by_source.setdefault(one.source or "source unknown", []).append(one)
    return cards_by_source


def outages(cards: Iterable[Card]) -> list[str]:
    """One sentence per source that several pipelines cannot reach."""
    away: dict[str, list[str]] = {}
    for one in cards:
        if one.runner.away is not None and not one.runner.away.refused and one.source:
            away.setdefault(one.source, []).append(one.name)
    return [
        f"{source} is unreachable: affects {len(names)} pipelines: {', '.join(sorted(names))}"
        for source, names in sorted(away.items())
        if len(names) > 1
    ]


def card_of(
    name: str,
    runner: Runner,
    layers: tuple[Layer, Layer, Layer],
    lag: Lag | None,
    tables: Sequence[TableProgress],
    reads: Sequence[Read],
    epochs: Sequence[Epoch],
    now: datetime,
    source: str = "",
    tags: tuple[str, ...] = (),
    differences: int = 0,
    alerts: Sequence[Firing] = (),
) -> Card:
    """The card of one pipeline.

    source: its host and port. epochs: those of the last `CHANGES_S`. differences: rows that differ.

    alerts: all of the pipeline.
    """
    _, keeping_up, retention = layers
    stale, left_s = "" if runner.responds else "gray", retention_left_s(runner, lag, now)
    live = runner.works
    rows_s = rows_per_s(reads, now) if copying(tables, live=live) else None
    facts = (
        LabelledValue("Copied", words.percent(share(tables)), stale),
        LabelledValue("Reading", words.rate(rows_s, "rows"), stale),
        LabelledValue("Changes", words.rate(_changes_per_s(epochs, runner, now) if live else None, "changes"), stale),
        LabelledValue("Lag", lag_words(runner, lag, now), _lag_colour(keeping_up, lag)),
        LabelledValue(
            "Retention left", "none" if position_lost(runner) else _whole(left_s), _retention_colour(retention, left_s)
        ),
        LabelledValue("Heartbeat", _heartbeat(runner, now), stale),
    )
    stopped, alerted = stopped_tables(tables), any(one.kind == "diverged" for one in alerts)
    trouble = _trouble(runner, tables, now, keeping_up, retention)
    more = [one for one in alerts if not (one.waits and _says(trouble, one, runner))]
    return Card(
        name,
        runner,
        phase_words(runner) if live else "",
        facts,
        trouble.text or _differing(0 if alerted else differences),
        source,
        stopped,
        tags,
        tuple(sorted(more, key=alert_order)),
        _stop_reason(tables) if trouble.stopped_tables else "",
    )


def _says(trouble: _Trouble, one: Firing, runner: Runner) -> bool:
    """Whether the card's first problem already says what an alert says."""
    if one.kind == "table_stopped":
        return one.table in trouble.stopped_tables
    if one.kind == "source_settings":
        return bool(one.message) and one.message in trouble.text
    return one.kind in kinds_of_state(runner)


def _stop_reason(tables: Sequence[TableProgress]) -> str:
    """Why the first stopped table stopped, in one line, and how many more have."""
    first, *rest = [table for table in tables if table.state == "stopped"]
    if not first.reason:
        return ""
    more = f" And {words.plural(len(rest), 'more table')}." if rest else ""
    return " ".join(f"{first.table}: {first.reason.rstrip('.')}.{more}".split())


def _differing(rows: int) -> str:
    return f"{rows_differ(rows)} from the source; see the page Verify" if rows else ""


def stopped_tables(tables: Iterable[TableProgress]) -> tuple[str, ...]:
    """The names of the stopped tables."""
    return tuple(table.table for table in tables if table.state == "stopped")


def _changes_per_s(epochs: Sequence[Epoch], runner: Runner, now: datetime) -> float:
    """Over the last `CHANGES_S`, or since the runner started if that is later."""
    since = max(now - timedelta(seconds=CHANGES_S), runner.started or now - timedelta(seconds=CHANGES_S))
    return sum(epoch.changes for epoch in epochs if epoch.ts > since) / max((now - since).total_seconds(), 1.0)


def _heartbeat(runner: Runner, now: datetime) -> str:
    if runner.alive:
        return f"{words.duration(runner.heartbeat_age_s)} ago"
    return f"{words.duration((now - runner.last_seen).total_seconds())} ago" if runner.last_seen else words.NOTHING


def _retention(runner: Runner, left_s: float | None) -> str:
    return "none" if position_lost(runner) else _whole(left_s)


def _whole(seconds: float | None) -> str:
    return words.duration(seconds if seconds is None else round(seconds))


def _colour(layer: Layer) -> str:
    return layer.colour if layer.colour in ("red", "orange", "gray") else ""


def _lag_colour(keeping_up: Layer, lag: Lag | None) -> str:
    """A small lag is not red, whatever else is: a stopped table, a full disk."""
    colour = _colour(keeping_up)
    return "" if colour == "red" and lag is not None and (lag.lag_s or 0.0) < LAG_FINE_S else colour


def _retention_colour(retention: Layer, left_s: float | None) -> str:
    """A long retention does not turn red because the source is away: the reading is only old."""
    colour = _colour(retention)
    return "gray" if colour and left_s is not None and left_s >= RETENTION_AMBER_S else colour


def _trouble(runner: Runner, tables: Sequence[TableProgress], now: datetime, *layers: Layer) -> _Trouble:
    if text := _runner_trouble(runner, now):
        return _Trouble(text)
    if stopped := stopped_tables(tables):
        others = "while the others continue" if others_work(tables) else "and no other table is left"
        others = f"Stopped, {others}" if runner.works else "Tables that have stopped"
        return _Trouble(f"{others}: {', '.join(stopped)}", stopped)
    red = [f"{layer.headline}: {', '.join(layer.details)}" for layer in layers if layer.colour == "red"]
    return _Trouble(red[0] if red else _paused(runner))


def _runner_trouble(runner: Runner, now: datetime) -> str:
    """What keeps the runner from working; empty if nothing does."""
    if runner.away is not None:
        return f"{away_line(runner.away, now)}: {runner.away.error}"
    if runner.state == "failed" and runner.error:
        return runner.error.message
    if runner.unseen is not None:
        return f"{runner.unseen.message} {runner.unseen.hint}"
    if runner.state == "lost":
        return f"The heartbeat stopped at {words.date_time(runner.last_seen)}; nothing is being read."
    if runner.frozen is not None:
        return f"{runner.frozen.message} Nothing is read now. {runner.frozen.hint}"
    return runner.unwritten.line if runner.unwritten else ""


def _paused(runner: Runner) -> str:
    """Who paused a live runner, and why; empty if it is not paused."""
    return f"Paused: {runner.reason}" if runner.reason else ""
