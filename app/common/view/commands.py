"""The progress of commands that this browser sent."""

import json
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.common.view import words
from engine.history.event_queries import CommandAnswer

SHOWN_S = 20.0
"""Seconds for which an answer stays on the page; a refusal stays three times as long."""
_DONE_WHEN = {"redump": "; it is done when the mirror can be read with its rows"}
"""What an open command waits for, by verb."""
SILENT_S = 10.0
"""After this long without an answer, the page says so."""


@dataclass(frozen=True)
class Sent:
    """A command sent from this browser."""

    id: str
    verb: str
    at: datetime
    """When it was put into the inbox."""


def sentences(
    commands: Sequence[Sent], answers: Sequence[CommandAnswer], shown_at: MutableMapping[str, datetime], now: datetime
) -> list[tuple[str, str]]:
    """(colour, sentence) for each command to show, oldest first.

    shown_at: when the answer to each command was first shown, by command id. New answers are added.
    """
    lines = [_sentence(one, [a for a in answers if a.id == one.id], shown_at, now) for one in commands]
    return [line for line in lines if line is not None]


def _sentence(
    command: Sent, answers: Sequence[CommandAnswer], shown_at: MutableMapping[str, datetime], now: datetime
) -> tuple[str, str] | None:
    verb = command.verb.replace("-", " ").capitalize()
    by_event, age_s = {answer.event: answer for answer in answers}, (now - command.at).total_seconds()
    refusal, completion = by_event.get("command.refused"), by_event.get("command.done")
    shown_s = (now - shown_at.setdefault(command.id, now)).total_seconds() if refusal or completion else 0.0
    if refusal:
        return ("orange", f"{verb} was refused: {refusal.message}") if shown_s < SHOWN_S * 3 else None
    if completion and completion.begun:
        text = f"{verb}: {resnapshot_begun(completion.begun)}"
        return ("blue", text) if shown_s < SHOWN_S else None
    if completion:
        return ("green", f"{verb} done in {words.duration(completion.duration_s)}") if shown_s < SHOWN_S else None
    if "command.accepted" in by_event:
        until = _DONE_WHEN.get(command.verb, "")
        return "blue", f"{verb} accepted; running for {words.duration(age_s)}{until}"
    if age_s > SILENT_S:
        return "orange", f"{verb} sent {words.duration(age_s)} ago; the runner has not answered yet"
    return "blue", f"{verb} sent; waiting for the runner"


def resnapshot_begun(tables: str) -> str:
    """What it means that a command has only begun resnapshots. tables: their names, as JSON."""
    names = [str(name) for name in json.loads(tables)]
    which = names[0] if len(names) == 1 else words.plural(len(names), "table")
    return f"the resnapshot of {which} has begun; readers get the new rows when it is complete, the old ones until then"
