"""What somebody wants to have read again: as words for the command line, what it reaches, and how it goes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.view import words
from engine.history.chunk_queries import Read
from engine.history.redumps import Redumped

PARTS = ("Chunks", "Range", "Keys", "Table", "Everything")
_NUMBERS = re.compile(r"\s*(\d+)\s*(?:[-–]\s*(\d+)\s*)?")
_MOST_CHUNKS = 10_000
_TONES = {"under way": "blue", "done": "green", "refused": "orange"}


@dataclass(frozen=True)
class Wish:
    """What the form says. part: one of PARTS. keys: one a line."""

    part: str
    table: str = ""
    chunks: str = ""
    lower: str = ""
    upper: str = ""
    keys: str = ""


def numbers(text: str) -> list[int]:
    """`3, 7–9` as numbers. Raises ValueError that says what is wrong."""
    found: list[int] = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip() or 'Nothing'!r} is no number of a chunk: 3, 7–9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(found) >= _MOST_CHUNKS:
            raise ValueError(f"{part.strip()!r} is no range of chunks, or too many (at most {_MOST_CHUNKS:,})")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def missing(wish: Wish) -> str:
    """What the form still lacks; empty when it can be asked for."""
    if wish.part == "Chunks":
        try:
            numbers(wish.chunks)
        except ValueError as fault:
            return "Name chunks: 3, 7–9" if not wish.chunks.strip() else str(fault)
    if wish.part == "Range" and not (wish.lower.strip() or wish.upper.strip()):
        return "Give a lower or an upper bound; without both it is the whole table"
    return "Paste keys, one a line" if wish.part == "Keys" and not wish.keys.strip() else ""


def arguments(wish: Wish, keys_file: str) -> list[str]:
    """The words of `redump` on the command line. keys_file: where the keys are written."""
    if wish.part == "Everything":
        return ["--all"]
    parts = {
        "Chunks": ("--chunk", ",".join(map(str, numbers(wish.chunks))) if wish.part == "Chunks" else ""),
        "Range": ("--range", wish.lower.strip(), wish.upper.strip()),
        "Keys": ("--keys", keys_file),
    }
    return ["--table", wish.table, *parts.get(wish.part, ())]


def pace(reads: Sequence[Read], table: str) -> float | None:
    """Rows a second that all readers together read of a table, by its last reads; None when none are known."""
    own = [read for read in reads if read.table == table and read.rows]
    seconds = sum((read.ended - read.started).total_seconds() for read in own)
    if not seconds:
        return None
    return sum(read.rows for read in own) / seconds * len({read.reader for read in own})


def expected_s(reached: Sequence[Mapping[str, Any]], reads: Sequence[Read]) -> float | None:
    """Seconds that the reading will take by the pace of the last copy; None when that is not known of every table."""
    total = 0.0
    for one in reached:
        rate = pace(reads, one["table"])
        if one["way"] == "refused" or one["rows"] == 0:
            continue
        if rate is None or one["rows"] is None:
            return None
        total += one["rows"] / rate
    return total


def reach_rows(reached: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """A line a table."""
    return [
        {
            "Table": one["table"],
            "Rows read again": _rows(one),
            "Rows in the mirror": f"{one['of_rows']:,}",
            "Size of the mirror": words.size(one["of_bytes"]),
            "How": ": ".join(part for part in (one["way"], one["why"]) if part),
        }
        for one in reached
    ]


def _rows(one: Mapping[str, Any]) -> str:
    if one["way"] == "refused":
        return "none"
    if one["rows"] is None:
        return f"at most {one['of_rows']:,}"
    asked = f" of {words.plural(one['keys'], 'key')}" if one["keys"] else ""
    return f"{one['rows']:,}{asked}"


def sentence(reached: Sequence[Mapping[str, Any]], seconds: float | None) -> str:
    """The blast radius in a line."""
    able = [one for one in reached if one["way"] != "refused"]
    if not able:
        return "Nothing can be read again in this way."
    known = sum(one["rows"] if one["rows"] is not None else one["of_rows"] for one in able)
    most = "at most " if any(one["rows"] is None for one in able) else ""
    told = f"{words.plural(len(able), 'table')}, {most}{words.plural(known, 'row')} of the mirror"
    about = "less than a second" if seconds is not None and seconds < 1 else f"about {words.duration(seconds)}"
    took = f", {about} of reading by the pace of the last copy" if seconds is not None else ""
    return f"{told}{took}. The log does not wait for it."


def ranges(reached: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """The ranges that are read again, in words."""
    return [words.span(lower, upper, key or "key") for one in reached for lower, upper in one["ranges"]]


def past_rows(found: Sequence[Redumped]) -> list[dict[str, object]]:
    """A line a command, newest first."""
    return [
        {
            "Asked": one.asked,
            "State": one.state,
            "What": one.what or words.NOTHING,
            "By": one.actor or words.NOTHING,
            "Reason": one.reason or "",
            "Parts": one.parts,
            "Rows": one.rows,
            "Ghosts": one.ghosts,
            "Keys missing": words.NOTHING if one.missing is None else f"{one.missing:,}",
            "Took": words.duration(one.duration_s) if one.duration_s is not None else "",
            "Answer": one.message or "",
        }
        for one in found
    ]


def progress(one: Redumped, expected_rows: int | None) -> tuple[str, str, float | None]:
    """(colour, sentence, share) of a command; the share is None when nobody knows how much it is."""
    colour = _TONES[one.state]
    so_far = f"{words.plural(one.parts, 'part')}, {words.plural(one.rows, 'row')}, {words.plural(one.ghosts, 'ghost')}"
    what = one.what or one.id
    if one.state == "refused":
        return colour, f"{what} was refused: {one.message}", None
    if one.state == "done":
        lost = f"; {words.plural(one.missing, 'key')} not there" if one.missing else ""
        return colour, f"{what} read again in {words.duration(one.duration_s)}: {so_far}{lost}", 1.0
    share = min(one.rows / expected_rows, 0.99) if expected_rows else None
    return colour, f"{what} is being read again: {so_far} so far", share
