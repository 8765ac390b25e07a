"""Reads the new complete lines of a part of a journal.

A journal grows while it is read, so its last line may be incomplete: the next read takes it. A malformed line is
counted and skipped, never fatal: a full disk can tear one, and that must not hide the rest of a run.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from engine.base import clock

BLOCK_BYTES = 8 << 20
"""The most bytes read at once; bounds the memory and the length of a transaction."""


@dataclass(frozen=True)
class SliceLine:
    """One event of a journal. `ts` is naive UTC, as DuckDB keeps it; `body` has all fields."""

    run: str
    seq: int
    ts: datetime
    event: str
    body: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Slice:
    """The new lines of a part."""

    lines: tuple[SliceLine, ...]
    offset: int
    """The byte where the next slice begins."""
    malformed: int
    malformed_text: str | None
    more: bool
    """Whether the part has more lines."""


def read_slice(file: BinaryIO, offset: int, after_seq: int, limit: int = BLOCK_BYTES) -> Slice:
    """The complete lines of `file` from byte `offset` on whose `seq` is above `after_seq`.

    A line longer than `limit` is read completely. Raises OSError when the file cannot be read.
    """
    file.seek(offset)
    block = file.read(limit)
    more = len(block) == limit
    if more and b"\n" not in block:
        block += file.readline()
    complete = block[: block.rfind(b"\n") + 1]
    lines: list[SliceLine] = []
    malformed, malformed_text, last = 0, None, after_seq
    for raw in complete.split(b"\n")[:-1]:
        line = parse_line(raw)
        if line is None or line.seq <= last:
            malformed += 1
            malformed_text = raw[:200].decode("utf-8", "replace")
            continue
        last = line.seq
        lines.append(line)
    return Slice(tuple(lines), offset + len(complete), malformed, malformed_text, more)


def parse_line(raw: bytes) -> SliceLine | None:
    """Parse a journal line; None if it is malformed."""
    try:
        text = raw.decode("utf-8")
        body = json.loads(text)
        return SliceLine(str(body["run"]), int(body["seq"]), naive_utc(body["ts"]), str(body["event"]), body, text)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def naive_utc(text: str) -> datetime:
    """A timestamp of the journal as a naive UTC datetime."""
    return clock.parse_utc(text).astimezone(UTC).replace(tzinfo=None)
