"""Decides which files of a change log to merge or to delete.

Every epoch adds a file, so that a busy table gets over a hundred thousand a day. Files of a closed hour are merged,
then those of a closed day, then those of a closed month, so that a row is written again three times at most, apart from
hours with more than `MOST_FILES` files. Only neighbours in the order of `_tm_seq` are merged: the order of changes
stays, and with it the narrow ranges of `_tm_seq` by which readers skip files.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from engine.decode.schema import TM_SEQ, TM_TS
from engine.destination.delta.log.delta_actions import StoredFile

SMALL_BYTES = 16 << 20
MOST_FILES, MOST_BYTES = 50, 64 << 20
_US = 1_000_000
_PERIODS = ("%Y-%m-%d %H", "%Y-%m-%d", "%Y-%m")


def next_files(files: Sequence[StoredFile], now: datetime) -> list[StoredFile]:
    """The next files to merge, in the order of their changes; empty if there is nothing to do.

    now: by the source's clock, as are the changes' times.
    """
    ordered = sorted(
        (file for file in files if TM_SEQ in file.low), key=lambda file: (file.low[TM_SEQ], file.high[TM_SEQ])
    )
    for period in _PERIODS:
        for group in _groups(ordered, period, f"{now:{period}}"):
            if len(group) > 1:
                return group
    return []


def _groups(ordered: Sequence[StoredFile], period: str, current: str) -> Iterator[list[StoredFile]]:
    """Neighbouring small files of one closed period, in pieces of a bounded size."""
    for when, same in groupby(ordered, lambda file: _period_of(file, period)):
        if when is None or when >= current:
            continue
        group, size = list[StoredFile](), 0
        for file in same:
            if file.bytes >= SMALL_BYTES or len(group) == MOST_FILES or size + file.bytes > MOST_BYTES:
                yield group
                group, size = [], 0
            if file.bytes < SMALL_BYTES:
                group.append(file)
                size += file.bytes
        yield group


def _period_of(file: StoredFile, period: str) -> str | None:
    """The period that contains all changes of a file; None if there is none."""
    if TM_TS not in file.low or TM_TS not in file.high:
        return None
    ends = {f"{datetime.fromtimestamp(file_ts / _US, UTC):{period}}" for file_ts in (file.low[TM_TS], file.high[TM_TS])}
    return ends.pop() if len(ends) == 1 else None


def last_change(files: Sequence[StoredFile]) -> datetime:
    """The time of the newest change, by the source's clock."""
    return datetime.fromtimestamp(max((file.high.get(TM_TS, 0) for file in files), default=0) / _US, UTC)


def closed_periods(last: datetime, now: datetime) -> tuple[bool, ...]:
    """Which periods of the newest change are closed.

    Until that changes, `next_files` gives the same for the same files.
    """
    return tuple(f"{last:{period}}" < f"{now:{period}}" for period in _PERIODS)


def expired_files(files: Sequence[StoredFile], before: datetime, merged_seq: int) -> list[StoredFile]:
    """The files whose changes are all older than `before`, and merged into the mirror up to `merged_seq`."""
    limit_us = before.timestamp() * _US
    return [
        file
        for file in files
        if file.high.get(TM_TS, limit_us) < limit_us and file.high.get(TM_SEQ, merged_seq + 1) <= merged_seq
    ]
