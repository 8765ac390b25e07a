"""Numbers and durations as text. An unknown value is `—`, never 0."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

NOTHING = "—"
_UTC_TEXT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d)")
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float | None) -> str:
    """`5.9M`, `812k`, `42`."""
    if value is None:
        return NOTHING
    for step, unit in _STEPS:
        # 999 950 and more would be rounded to 1000.0k.
        if abs(value) >= step * 0.99995:
            return f"{_short(value / step)}{unit}"
    return _short(value)


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


def ages(percentiles_s: Mapping[str, float]) -> str:
    """`0.3 s (p99 1.2 s)`, of `p50` and `p99`."""
    return "{p50:.1f} s (p99 {p99:.1f} s)".format_map(percentiles_s)


def listing(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """`a, b and 3 more`: the first `most` names, and how many there are besides."""
    before_more = "" if separator == ", " else separator.rstrip()
    more = f"{before_more} and {len(names) - most:,} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def stop_sentence(table: str, reason: str) -> str:
    """`d.t stopped: it has a new type`: the table is named once."""
    return f"{table} stopped: {reason.removeprefix(f'{table}: ')}"


def utc_time(text: object) -> str:
    """`2026-11-27 12:30:05 UTC` for a time as `clock.utc_text` writes it; other texts stay as they are."""
    match = _UTC_TEXT.match(str(text or NOTHING))
    return f"{match['day']} {match['time']} UTC" if match else str(text or NOTHING)


def plural(number: int, noun: str) -> str:
    """`1 chunk`, `3 chunks`, `1,248 chunks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def sentences(*parts: str | None) -> str:
    """Texts one after the other, without the empty ones.

    All but the last end with a full stop: texts from outside may lack it.
    """
    texts = [part.strip() for part in parts if part and part.strip()]
    return " ".join([*map(_ended, texts[:-1]), *texts[-1:]])


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", ";", "…")) else f"{text}."


def rows_differ(number: int, of: str = "") -> str:
    """`1 row differs`, `3 rows differ`; `3 rows of shop.orders differ`."""
    return f"{plural(number, 'row')}{f' of {of}' if of else ''} {'differs' if number == 1 else 'differ'}"


def are_gone(number: int, noun: str, of: str = "", *, or_damaged: bool = False) -> str:
    """`1 file is gone`, `3 files are gone`; `3 files of shop are gone or damaged`."""
    verb = "is" if number == 1 else "are"
    return f"{plural(number, noun)}{f' of {of}' if of else ''} {verb} gone{' or damaged' if or_damaged else ''}"


def _short(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 0.05 else f"{value:.2f}"


def size(value: float | None) -> str:
    """`12 KB`, `1.4 GB`: powers of 1000."""
    if value is None:
        return NOTHING
    text = count(value)
    number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
    return f"{number} {unit}B"


def toml_text(text: str) -> str:
    """A text as a string in TOML, whatever characters it has."""
    return json.dumps(text, ensure_ascii=False)


def shell_word(text: str) -> str:
    """A text as one word of a shell, whatever characters it has; as it is if it has none that a shell knows."""
    return shlex.quote(text)
