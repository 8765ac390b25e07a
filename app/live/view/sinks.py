"""The further sinks of a pipeline: how far each is, what is kept for it, and why it lacks epochs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.common.view import words
from engine.pipeline.runner_record import SinkProgress

SinkAct = Literal["Pause", "Resume", "Try again"]
_STATES = {
    "starting": ("Starting", "blue", ":material/hourglass_top:"),
    "publishing": ("Up to date", "green", ":material/check_circle:"),
    "catching up": ("Catching up", "blue", ":material/sync:"),
    "paused": ("Paused", "violet", ":material/pause_circle:"),
    "retrying": ("Retrying", "orange", ":material/error:"),
    "stopped": ("Stopped", "red", ":material/error:"),
    "waiting": ("Waits for a runner", "gray", ":material/remove_circle:"),
}
"""By state: the words, the colour and the icon."""


@dataclass(frozen=True)
class SinkCard:
    """A further sink."""

    name: str
    headline: str
    colour: str
    icon: str
    where: str
    """Its kind and its place."""
    facts: tuple[tuple[str, str], ...]
    """Labels and values."""
    why: str
    """Why it lacks epochs; "" if nothing keeps it from applying them."""
    acts: tuple[SinkAct, ...]
    """What an operator can do now."""


def cards(sinks: Iterable[SinkProgress], now: datetime) -> list[SinkCard]:
    """A card per sink."""
    return [_card(one, now) for one in sinks]


def _card(one: SinkProgress, now: datetime) -> SinkCard:
    state = _state(one)
    headline, colour, icon = _STATES.get(state, (state, "gray", ":material/help:"))
    waiting = words.NOTHING
    if one.max_kept_bytes:
        waiting = f"{words.size(one.kept_bytes)} of {words.size(one.max_kept_bytes)}"
    epoch = words.NOTHING if one.through_epoch is None or one.through_epoch < 0 else f"epoch {one.through_epoch}"
    facts = (
        ("Applied through", " · ".join(filter(None, (one.position, epoch)))),
        ("Behind since", _ago(one.lacks_since, now) if one.lacks_since else words.NOTHING),
        ("Rows/s", words.NOTHING if one.rows_per_s is None else words.count(round(one.rows_per_s))),
        ("Freshness", words.ages(one.freshness_s) if one.freshness_s else words.NOTHING),
        ("Kept for it", waiting),
    )
    where = f"{one.type} · {one.path}"
    return SinkCard(one.sink, headline, colour, icon, where, facts, one.error or "", _acts(state))


def _state(one: SinkProgress) -> str:
    return "catching up" if one.state == "publishing" and one.lacks_since else one.state


def _acts(state: str) -> tuple[SinkAct, ...]:
    if state == "paused":
        return ("Resume",)
    if state == "retrying":
        return ("Try again", "Pause")
    return ("Pause",) if state in ("starting", "publishing", "catching up") else ()


def _ago(since: str, now: datetime) -> str:
    return words.ago(datetime.fromisoformat(since).timestamp(), now)
