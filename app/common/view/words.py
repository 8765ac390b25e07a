"""Numbers, times and names as text. An unknown value is `—`, never 0."""

import re
from datetime import datetime

from app.common.view import zone
from app.common.view.hints import for_console
from engine.base.wording import NOTHING, ages, count, duration, listing, plural, size, stop_sentence

__all__ = ["NOTHING", "ages", "count", "duration", "listing", "plural", "size", "stop_sentence"]
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:@^=])")


def escape(text: str) -> str:
    """Escape text for a Markdown element, so that all of it is shown literally."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " "))


def three_parts(message: str, detail: str = "", hint: str = "", *, above_buttons: bool = False) -> str:
    """Markdown for a message: what happened, further lines of it as a list, what it means, and what to do.

    above_buttons: as for `hints.for_console`.

    Blank lines are left out: an empty item of a list would turn the line above it into a heading.
    """
    first, *rest = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    text = "\n".join([f"**{escape(first)}**", *(f"- {escape(line)}" for line in rest)])
    if detail:
        text += f"\n\n**What it means** {escape(detail)}"
    if hint:
        text += f"\n\n**What to do** {escape(for_console(hint, above_buttons=above_buttons))}"
    return text


def percent(share: float | None) -> str:
    """`79.1%`. Anything below 1 is less than 100%."""
    if share is None:
        return NOTHING
    return "100%" if share >= 1 else f"{min(share * 100, 99.9):.1f}%"


def rate(value: float | None, unit: str) -> str:
    """`120k rows/s`."""
    return NOTHING if value is None else f"{count(value)} {unit}/s"


def time_of_day(at: datetime | None) -> str:
    """`15:30:17 UTC`, in the chosen time zone."""
    return NOTHING if at is None else f"{zone.local(at):%H:%M:%S %Z}"


def date_time(at: datetime | None) -> str:
    """`2026-01-31 15:30:17 UTC`, in the chosen time zone."""
    return NOTHING if at is None else f"{zone.local(at):%Y-%m-%d %H:%M:%S %Z}"


def ago(at_s: float | None, now: datetime) -> str:
    """`12 s ago`, in whole seconds. at_s: in seconds since 1970."""
    return NOTHING if at_s is None else f"{duration(round(max(now.timestamp() - at_s, 0.0)))} ago"


def span(lower: str | None, upper: str | None, key: str = "key") -> str:
    """A half-open range: `1 ≤ id < 500`; an open end is left out."""
    if lower is None and upper is None:
        return f"every {key}"
    start = "" if lower is None else f"{lower} ≤ "
    return f"{start}{key}" + ("" if upper is None else f" < {upper}")
