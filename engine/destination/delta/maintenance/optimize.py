"""Decides which files of a mirror to rewrite: small ones, and those with many deleted rows.

Merge on read leaves small files with new rows, and deleted rows in large files. A rewrite

* merges small files of about the same size, neighbours by key, into one in key order. So each row moves through few
  sizes (with a step after each ten merges, merging all small files would write a row of a quiet table up to a hundred
  times), and the file has a narrow range of keys, or
* takes a file with a fifth of its rows deleted, together with all rows in its key range that are in other files: from
  files within the range all rows, from others the rows in the range, which a deletion vector then deletes there. So the
  mirror's files keep narrow ranges of keys, and later merges read few of them. Where that would move too much, the file
  is rewritten alone.

It ends: each merge of small files leaves fewer files (`_is_small`); a rewritten file has no deleted rows, and no other
file has rows in its range. The range is that of the rows that exist, not of the file's statistics: else two overlapping
files would take the same rows from each other for ever.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.destination.delta.log.delta_actions import StoredFile
from engine.spec.merge_numbers import COPIED, FEWEST_FILES, GARBAGE, LEAST_BYTES, MOST_BYTES, SMALL_BYTES

MOST_FILES, MOST_ROWS = 50, 500_000
"""The limits of one rewrite, with `MOST_BYTES`: it is sorted in memory and may not delay merges."""
RowRange = tuple[int, int]


@dataclass(frozen=True)
class Rewrite:
    """One step."""

    files: tuple[str, ...]
    """The files to replace."""
    part: RowRange | None = None
    """The first and the last value of the first key column, between which rows of other files are moved too."""
    partly: tuple[str, ...] = ()
    """These files."""


def garbage(file: StoredFile) -> float:
    """The share of deleted rows."""
    return file.deleted_rows / file.rows if file.rows > 0 else 0.0


def live_bytes(file: StoredFile) -> float:
    """The approximate bytes of the rows that exist."""
    return file.bytes * (1 - garbage(file))


def next_rewrite(
    files: Sequence[StoredFile], key: str, live_range: Callable[[str], RowRange], *, on_read: bool, file_rows: int
) -> Rewrite | None:
    """The next step; None if there is nothing to do. key: the first key column. live_range: of a file's existing rows.

    file_rows: the fewest rows in a file that the rewrite writes, apart from its last one.
    """
    worst = max(files, key=lambda file: (garbage(file) >= GARBAGE, file.deleted_rows), default=None)
    if worst is not None and garbage(worst) >= GARBAGE:
        return _range_of(worst, files, key, live_range) if on_read else Rewrite((worst.name,))
    times = 1 if on_read else COPIED
    small = [file for file in files if _is_small(file, SMALL_BYTES / times, file_rows)]
    full = [size for size, count in Counter(map(_size_class, small)).items() if count >= FEWEST_FILES]
    if not full:
        return None
    mergeable = [file for file in small if _size_class(file) <= min(full)]
    chosen, rows, size = list[str](), 0, 0.0
    for file in sorted(mergeable, key=lambda file: (file.low.get(key, 0), live_bytes(file)))[:MOST_FILES]:
        rows, size = rows + max(file.rows, 0) - file.deleted_rows, size + live_bytes(file)
        if len(chosen) >= 2 and (rows > MOST_ROWS or size > MOST_BYTES / times):
            break
        chosen.append(file.name)
    return Rewrite(tuple(chosen))


def _is_small(file: StoredFile, below: float, file_rows: int) -> bool:
    """Whether it is worth merging.

    Any two of them fit into one file: else a rewrite could write as many files as before.
    """
    return live_bytes(file) < below and file.rows - file.deleted_rows <= min(MOST_ROWS, file_rows) / 2


def _size_class(file: StoredFile) -> int:
    """0 below `LEAST_BYTES`, and one more for each factor of `FEWEST_FILES`."""
    return max(math.ceil(math.log(max(live_bytes(file), 1.0) / LEAST_BYTES, FEWEST_FILES)), 0)


def _range_of(
    worst: StoredFile, files: Sequence[StoredFile], key: str, live_range: Callable[[str], RowRange]
) -> Rewrite:
    """The file with everything in its range; if possible, the range is extended to files that are mostly within it."""
    alone = Rewrite((worst.name,))
    if worst.deleted_rows >= worst.rows or any(key not in file.low or key not in file.high for file in files):
        return alone
    low, high = live_range(worst.name)
    others = [file for file in files if file != worst]
    for part in (_extended(others, key, low, high), (low, high)):
        near = [file for file in others if _overlap(file, key, *part) > 0]
        whole = [file for file in near if part[0] <= file.low[key] and file.high[key] <= part[1]]
        shares = [(worst, 1.0), *((file, _overlap(file, key, *part)) for file in near)]
        size = sum(live_bytes(file) * share for file, share in shares)
        rows = sum((file.rows - file.deleted_rows) * share for file, share in shares)
        if size <= MOST_BYTES and rows <= MOST_ROWS:
            partly = (file.name for file in near if file not in whole)
            return Rewrite((worst.name, *(file.name for file in whole)), part, tuple(partly))
    return alone


def _extended(files: Sequence[StoredFile], key: str, low: int, high: int) -> RowRange:
    """The range, extended until every file is within it, or at least half of its own range is outside."""
    while inside := [file for file in files if 0.5 < _overlap(file, key, low, high) < 1]:
        low = min(low, *(file.low[key] for file in inside), low)
        high = max(high, *(file.high[key] for file in inside), high)
    return low, high


def _overlap(file: StoredFile, key: str, low: int, high: int) -> float:
    """The approximate share of a file's rows that are between two values."""
    first, last = file.low[key], file.high[key]
    return max(min(last, high) - max(first, low) + 1, 0) / (last - first + 1)
