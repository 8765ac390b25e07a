"""Commands that wait, in words."""

from datetime import datetime

from app.common.view import words
from engine.pipeline.command_queue import Waiting


def queue_line(one: Waiting) -> str:
    """`Redump shop.orders · sent by ada at 2026-01-31 15:30:17 UTC: wrong rows`."""
    verb = one.verb.replace("-", " ").capitalize()
    why = f": {one.reason}" if one.reason else ""
    try:
        at = words.date_time(datetime.fromisoformat(one.sent))
    except ValueError:
        at = words.NOTHING
    return f"{verb} {one.what} · sent by {one.actor or 'unknown'} at {at}{why}"
