"""Numbers, times and names as text. An unknown value is `—`, never 0."""

import re
from datetime import datetime

from app.view import zone

NOTHING = "—"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:@^=])")
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def escape(text: str) -> str:
    """Escape text for a Markdown element, so that all of it is shown literally."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " "))


def count(value: float | None) -> str:
    """`5.9M`, `812k`, `42`."""
    if value is None:
        return NOTHING
    for step, unit in _STEPS:
        # 999 950 and more would be rounded to 1000.0k.
        if abs(value) >= step * 0.99995:
            return f"{_short(value / step)}{unit}"
    return _short(value)


def size(value: float | None) -> str:
    """`12 KB`, `1.4 GB`: powers of 1000."""
    if value is None:
        return NOTHING
    text = count(value)
    number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
    return f"{number} {unit}B"


def duration(value: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 12 min`, `2 d 9 h`."""
    if value is None:
        return NOTHING
    if value < 9.95:
        return "0 s" if value < 0.0005 else f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.1f} s"
    whole = round(value)
    for unit_s, unit, part_s, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"
    return f"{whole} s"


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


def plural(number: int, noun: str) -> str:
    """`1 chunk`, `3 chunks`, `1,248 chunks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def span(lower: str | None, upper: str | None, key: str = "key") -> str:
    """A half-open range: `1 ≤ id < 500`; an open end is left out."""
    if lower is None and upper is None:
        return f"every {key}"
    left = "" if lower is None else f"{lower} ≤ "
    return f"{left}{key}" + ("" if upper is None else f" < {upper}")


def _short(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 0.05 else f"{value:.2f}"
