"""Chooses a random part of an audit's ranges, so that an audit is short however much binlog there is."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from engine.audit.audit_range import AuditedRange
from engine.source.positions import FIRST_OFFSET, Position, bytes_between, file_number

SAMPLE_BYTES = 64 << 20
"""About the bytes of binlog that a sampled audit reads. It ends with the transaction in which they are read."""
_NOTE = "a random part of it was chosen (--sample)"


def sampled(
    ranges: Sequence[AuditedRange],
    files: Mapping[str, int],
    next_between: Callable[[Position], Position],
    most_bytes: int = SAMPLE_BYTES,
    below: Callable[[int], int] = secrets.randbelow,
) -> list[AuditedRange]:
    """The same random part of the binlog for all tables. A table whose range lies elsewhere gets an empty one.

    files: of the binlog, with their sizes. next_between: the first position at or after another that lies between two
    transactions. below: a random number from 0 to below its argument.
    """
    wanted = [part for part in ranges if part.start.order < part.end.order]
    if not wanted:
        return list(ranges)
    first = min((part.start for part in wanted), key=lambda position: position.order)
    last = max((part.end for part in wanted), key=lambda position: position.order)
    spare = bytes_between(dict(files), first, last) - most_bytes
    if spare <= 0:
        return list(ranges)
    begin = next_between(_advanced(files, first, below(spare + 1)))
    end = min(next_between(_advanced(files, begin, most_bytes)), last, key=lambda position: position.order)
    return [_within(part, begin, end) for part in ranges]


def _advanced(files: Mapping[str, int], position: Position, count: int) -> Position:
    """The position so many bytes later, if the binlog is that long; perhaps within a transaction."""
    offset = count + position.offset
    for name, size in files.items():
        if file_number(name) < file_number(position.file):
            continue
        if offset < size:
            return Position(name, max(offset, FIRST_OFFSET))
        offset -= size
    name, size = list(files.items())[-1]
    return Position(name, size)


def _within(part: AuditedRange, begin: Position, end: Position) -> AuditedRange:
    start = max(part.start, begin, key=lambda position: position.order)
    stop = min(part.end, end, key=lambda position: position.order)
    if stop.order < start.order:
        stop = start
    return replace(part, start=start, end=stop, notes=(*part.notes, _NOTE))
