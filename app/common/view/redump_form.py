"""The redump form: its request, the affected rows, and the progress of the command."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Self

from app.common.view import words
from app.common.view.commands import resnapshot_begun
from engine.history.chunk_queries import Read
from engine.history.redumps import Redumped

NOT_READ = ("refused", "left alone")
"""What a dry run says of a table that is not redumped."""
PARTS = ("Chunks", "Range", "Keys", "Table", "Everything")
WHOLE = ("Table", "Everything")
"""What can be redumped of a pipeline without mirrors. A part of a table can be replaced only in a mirror."""
_NUMBERS = re.compile(r"\s*(\d+)\s*(?:[-–]\s*(\d+)\s*)?")
MOST_CHUNKS = 10_000
_MOST = 60
"""Characters of keys that a line shows."""
_TONES = {"under way": "blue", "done": "green", "refused": "orange"}


@dataclass(frozen=True)
class Request:
    """The values of the form."""

    part: str
    """One of `PARTS`."""
    table: str = ""
    chunks: str = ""
    """Chunk numbers, such as `3, 7–9`."""
    lower: str = ""
    """Included; empty means open."""
    upper: str = ""
    """Excluded; empty means open."""
    keys: str = ""
    """Primary keys, one per line."""


def numbers(text: str) -> list[int]:
    """The numbers in `3, 7–9`. Raises ValueError with a message."""
    chunks: list[int] = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip() or 'Nothing'!r} is not a chunk number: 3, 7–9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(chunks) >= MOST_CHUNKS:
            raise ValueError(f"{part.strip()!r} is not a range of chunks, or too many chunks (at most {MOST_CHUNKS:,})")
        chunks += range(first, last + 1)
    return list(dict.fromkeys(chunks))


def missing(request: Request, *, numeric: bool = False) -> str:
    """What the form still needs; empty if it is complete.

    numeric: the chunk key is a number; only the server orders other keys.
    """
    if request.part != "Everything" and not request.table:
        return "Choose a table"
    try:
        if request.part == "Chunks":
            return "" if request.chunks.strip() and numbers(request.chunks) else "Enter chunk numbers: 3, 7–9"
        if request.part == "Keys":
            return "" if keys(request.keys) else "Enter keys, one per line"
    except ValueError as fault:
        return str(fault)
    return (
        _wrong_range(request.lower.strip(), request.upper.strip(), numeric=numeric) if request.part == "Range" else ""
    )


def _wrong_range(lower: str, upper: str, *, numeric: bool) -> str:
    if not (lower or upper):
        return "Enter a lower or an upper bound; without both it would be the whole table"
    if not lower or not upper:
        return ""
    empty = lower == upper
    if numeric:
        try:
            empty = Decimal(upper) <= Decimal(lower)
        except InvalidOperation:
            return "Enter numbers as bounds"
    return f"The upper bound must be above the lower one. No key is at least {lower} and below {upper}" if empty else ""


def keys(text: str) -> list[str | list[str]]:
    """The primary keys in a text, one per line; a key of several columns is a JSON list.

    Raises ValueError with a message.
    """
    primary_keys: list[str | list[str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if not line.startswith("["):
            primary_keys.append(line)
            continue
        try:
            primary_keys.append([str(part) for part in json.loads(line)])
        except ValueError:
            raise ValueError(f"{line!r} is not a JSON list") from None
    return primary_keys


@dataclass(frozen=True)
class CountedTable:
    """A table of a dry run."""

    table: str
    way: str
    """redumped, resnapshotted, or one of `NOT_READ`."""
    why: str
    of_rows: int
    """Rows in its mirror."""
    of_bytes: int
    rows: int | None
    """Rows to be read again; None if they cannot be counted."""
    ranges: list[tuple[str | None, str | None]]
    keys: int
    """The number of keys that were asked for."""


@dataclass(frozen=True)
class DryRun:
    """What a redump would do."""

    arguments: Mapping[str, Any]
    """Of the command."""
    tables: tuple[CountedTable, ...]

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Self:
        """The answer of `redump --dry-run --json`."""
        return cls(answer["arguments"], tuple(CountedTable(**one) for one in answer["tables"]))


def document(request: Request) -> dict[str, Any]:
    """The request as `redump --request` takes it."""
    if request.part == "Everything":
        return {"tables": []}
    part: dict[str, Any] = {}
    if request.part == "Chunks":
        part = {"chunks": numbers(request.chunks)}
    elif request.part == "Range":
        part = {"range": [request.lower.strip() or None, request.upper.strip() or None]}
    elif request.part == "Keys":
        part = {"keys": keys(request.keys)}
    return {"tables": [request.table], **part}


def pace(reads: Sequence[Read], table: str) -> float | None:
    """Rows per second of all readers together, by a table's last reads; None without any."""
    own = [read for read in reads if read.table == table and read.rows]
    seconds = sum((read.ended - read.started).total_seconds() for read in own)
    if not seconds:
        return None
    return sum(read.rows for read in own) / seconds * len({read.reader for read in own})


def expected_s(tables: Sequence[CountedTable], reads: Sequence[Read]) -> float | None:
    """The expected seconds, by the speed of the last copy; None if that is unknown for a table."""
    total = 0.0
    for one in tables:
        rate = pace(reads, one.table)
        if one.way in NOT_READ or one.rows == 0:
            continue
        if rate is None or one.rows is None:
            return None
        total += one.rows / rate
    return total


def affected_rows(tables: Sequence[CountedTable]) -> list[dict[str, object]]:
    """One row per table."""
    return [
        {
            "Table": one.table,
            "Rows read again": _rows(one),
            "Rows in the mirror": f"{one.of_rows:,}",
            "Size of the mirror": words.size(one.of_bytes),
            "How": ": ".join(part for part in (one.way, one.why) if part),
        }
        for one in tables
    ]


def _rows(one: CountedTable) -> str:
    if one.way in NOT_READ:
        return "none"
    if one.rows is None:
        return f"at most {one.of_rows:,}"
    of_keys = f" of {words.plural(one.keys, 'key')}" if one.keys else ""
    return f"{one.rows:,}{of_keys}"


def sentence(tables: Sequence[CountedTable], seconds: float | None) -> str:
    """The affected tables and rows, and the expected time, as a sentence."""
    able = [one for one in tables if one.way not in NOT_READ]
    if not able:
        return "Nothing in this selection can be redumped."
    row_count = sum(one.rows if one.rows is not None else one.of_rows for one in able)
    most = "at most " if any(one.rows is None for one in able) else ""
    rows = f"{words.plural(len(able), 'table')}, {most}{words.plural(row_count, 'row')} of the mirror"
    about = "less than a second" if seconds is not None and seconds < 1 else f"about {words.duration(seconds)}"
    took = f", {about} of reading at the speed of the last copy" if seconds is not None else ""
    return f"{rows}{took}. The binlog is read meanwhile."


def ranges(tables: Sequence[CountedTable], key: str) -> list[str]:
    """The ranges that are redumped, in words."""
    return [words.span(lower, upper, key or "key") for one in tables for lower, upper in one.ranges]


def past_rows(redumps: Sequence[Redumped], verify: Callable[[Redumped], str]) -> list[dict[str, object]]:
    """One row per command, newest first. verify: the address that verifies what was redumped."""
    return [
        {
            "Asked": one.requested_at,
            "State": one.state,
            "What": subject(one),
            "Verify": verify(one) if one.state == "done" else None,
            "By": one.actor or words.NOTHING,
            "Reason": one.reason or "",
            # A resnapshot has no parts, and its rows are not counted: they would be 0.
            "Parts": None if one.begun and not one.parts else one.parts,
            "Rows": None if one.begun and not one.parts else one.rows,
            "Ghosts": None if one.begun and not one.parts else one.ghosts,
            "Keys missing": words.NOTHING if one.missing is None else f"{one.missing:,}",
            "Took": words.duration(one.duration_s) if one.duration_s is not None else "",
            "Answer": one.message or "",
        }
        for one in redumps
    ]


def table_of(one: Redumped, tables: Collection[str]) -> str | None:
    """The table that was redumped; None if it was not one of these alone."""
    name = (one.what or "").rpartition(" of ")[2].removeprefix("table ")
    return name if name in tables else None


def verify_query(one: Redumped, pipeline: str, tables: Collection[str]) -> dict[str, str]:
    """The query of the page Verify for what was redumped.

    It has the pipeline, and the table and the first key if it was one table.
    """
    query, (table, keys) = {"pipeline": pipeline}, (table_of(one, tables), _keys_of(one))
    if table is not None:
        query |= {"table": table} | ({"key": keys[0]} if keys else {})
    return query


def subject(one: Redumped) -> str:
    """What was redumped, with the requested bounds or keys: `a range of d.t: 5 ≤ key < 9`, `2 keys of d.t: 17, 42`."""
    what = one.what or one.id
    if keys := _keys_of(one):
        text = ", ".join(f"({key})" if ", " in key else key for key in keys)
        count = int(what.partition(" ")[0]) if what.partition(" ")[0].isdecimal() else len(keys)
        return f"{what}: {text[:_MOST]}…" if len(text) > _MOST or count > len(keys) else f"{what}: {text}"
    try:
        lower, upper = json.loads(one.range or "")
    except (ValueError, TypeError):
        return what
    return f"{what}: {words.span(_bound(lower), _bound(upper))}"


def _keys_of(one: Redumped) -> list[str]:
    """The first requested keys as text, `17` or `de, 5`; empty if keys were not requested, or by an older version."""
    try:
        key_values = json.loads(one.keys or "")
    except ValueError:
        return []
    return [_bound(key) or words.NOTHING for key in key_values] if isinstance(key_values, list) else []


def _bound(value: object) -> str | None:
    return None if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def refused_tables(one: Redumped, tables: Collection[str], refused: Sequence[str]) -> list[str]:
    """Those of a command's tables that the account may not read. refused: all of the pipeline."""
    return [table for table in refused if table_of(one, tables) in (None, table)]


def progress(
    one: Redumped, expected_rows: int | None, refused_tables: Collection[str] = ()
) -> tuple[str, str, float | None]:
    """(colour, sentence, share) of a command; the share is None if the number of rows is unknown.

    refused_tables: those of the command that the account may not read.
    """
    colour = _TONES[one.state]
    so_far = f"{words.plural(one.parts, 'part')}, {words.plural(one.rows, 'row')}, {words.plural(one.ghosts, 'ghost')}"
    what = subject(one)
    if one.state == "refused":
        return colour, f"{what} was refused: {one.message}", None
    if one.state == "done":
        if one.begun:
            return "blue", f"{what}: {resnapshot_begun(one.begun)}" + (f"; {so_far}" if one.parts else ""), 1.0
        missing_keys = f"; {words.plural(one.missing, 'key')} not found" if one.missing else ""
        return colour, f"{what}: redumped in {words.duration(one.duration_s)}: {so_far}{missing_keys}", 1.0
    share = min(one.rows / expected_rows, 0.99) if expected_rows else None
    if refused_tables:
        return "red", f"{what}: waits for the privilege to read {', '.join(refused_tables)}; {so_far} so far", share
    if not one.parts:
        return colour, f"{what}: waits until the mirror can be read and the first part is committed", share
    return colour, f"{what}: redump running, {so_far} so far; done when the mirror can be read with them", share
