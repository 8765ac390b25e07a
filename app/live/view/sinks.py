"""The further sinks of a pipeline: how far each is, what is kept for it, and why it lacks epochs."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from app.common.view import words
from engine.pipeline.runner_record import SinkProgress

LABELS = {
    "starting": "starting",
    "publishing": "up to date",
    "retrying": "retrying",
    "stopped": "stopped",
    "waiting": "waits for a runner",
}


def rows(sinks: Iterable[SinkProgress], now: datetime) -> list[dict[str, Any]]:
    """A row per sink."""
    return [
        {
            "Sink": one.sink,
            "State": _state(one),
            "Behind since": _ago(one.lacks_since, now),
            "Kept for it": f"{words.size(one.kept_bytes)} of {words.size(one.max_kept_bytes)}"
            if one.max_kept_bytes
            else words.NOTHING,
            "Through epoch": words.NOTHING if not one.through_epoch or one.through_epoch < 0 else one.through_epoch,
            "Where": f"{one.type}: {one.path}",
            "Why": one.error or words.NOTHING,
        }
        for one in sinks
    ]


def _state(one: SinkProgress) -> str:
    if one.state == "publishing" and one.lacks_since:
        return "catching up"
    return LABELS.get(one.state, one.state)


def _ago(since: str | None, now: datetime) -> str:
    return words.ago(datetime.fromisoformat(since).timestamp(), now) if since else words.NOTHING
