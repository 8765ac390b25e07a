"""The row events of prepared XA transactions, kept from the first reading until the transaction is decided.

Servers log the rows of an XA transaction at its PREPARE, and they count at its COMMIT. To read them there again would
take a dump for each transaction. Most are committed in the block of the dump that prepares them: their row events only
change places in it (`rearrange`). The table maps and row events of the others are kept: in memory up to a limit, then
in a temporary file, up to another one. What is not kept (a transaction too large to be held back, or one beyond the
limits) is read again.

At its COMMIT, a transaction's events follow the COMMIT, with its position. That holds within one binlog file: a server
that restarts numbers its tables from the beginning. Events from another file are decoded by their own table maps.
"""

import pickle
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from engine.decode.binlog_events import HEADER, Headers
from engine.decode.framing import PADDING, Bytes, Offsets
from engine.decode.stream import EventBatch

MOST_MEMORY = 64 << 20
MOST_SPILLED = 1 << 30
_OVERHEAD = 4096
"""Bytes of memory of a block in addition to its buffer."""
_TAIL = 4


class _RowBlock:
    """Events of one run, in memory or in the file."""

    def __init__(self, run: EventBatch) -> None:
        self.run: EventBatch | None = run
        self.file = run.file
        self.bytes = len(run.buffer) + _OVERHEAD + 80 * len(run.headers)
        self.place = 0
        self.users = 0


@dataclass(frozen=True)
class KeptTransaction:
    """The events of one transaction: `run`, from event `begin` to `end`."""

    run: EventBatch
    begin: int
    end: int

    @property
    def bytes(self) -> int:
        """The bytes of the events."""
        return int(self.run.headers.size[self.begin : self.end].sum())


NOTHING = "nothing"
"""A transaction without rows of captured tables."""


class PreparedRows:
    """The kept events, by a number for each transaction."""

    def __init__(self) -> None:
        self._kept_transactions: dict[int, tuple[_RowBlock, int, int] | None] = {}
        self._in_memory: dict[int, _RowBlock] = {}
        self._bytes = 0
        self._spilled_bytes = 0
        self._file: IO[bytes] | None = None
        self._loaded_block: tuple[_RowBlock, EventBatch] | None = None

    def keep(self, run: EventBatch | None, parts: Sequence[tuple[int, int, int]]) -> None:
        """Keep transactions of one run: number, first event and end of each.

        run: valid until dropped; None if it has no events.
        """
        block = None if run is None else _RowBlock(run)
        if block is not None and not self._has_room(block.bytes):
            parts = [part for part in parts if part[1] == part[2]]
            block = None
        for number, begin, end in parts:
            self._kept_transactions[number] = None if begin == end or block is None else (block, begin, end)
            if block is not None and begin != end:
                block.users += 1
        if block is not None and block.users:
            self._in_memory[id(block)] = block
            self._bytes += block.bytes

    def _has_room(self, size: int) -> bool:
        """Whether a block can be kept; others are moved to the file for that."""
        while self._in_memory and self._bytes + size > MOST_MEMORY:
            block = next(iter(self._in_memory.values()))
            if self._spilled_bytes + block.bytes > MOST_SPILLED:
                return False
            self._spill(self._in_memory.pop(id(block)))
            self._bytes -= block.bytes
        return self._bytes + size <= MOST_MEMORY

    def _spill(self, block: _RowBlock) -> None:
        if self._file is None:
            # It lives as long as this object.
            self._file = tempfile.TemporaryFile(prefix="tidemark-prepared-")  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        block.place = self._file.seek(0, 2)
        pickle.dump(block.run, self._file, protocol=5)
        self._spilled_bytes += block.bytes
        block.run = None

    def take(self, number: int) -> KeptTransaction | str | None:
        """Return a transaction's events and forget them; `NOTHING` if it has none, None if they were not kept."""
        if number not in self._kept_transactions:
            return None
        entry = self._kept_transactions.pop(number)
        if entry is None:
            return NOTHING
        block, begin, end = entry
        run = self._run(block)
        self._release(block)
        return KeptTransaction(run, begin, end)

    def drop(self, number: int) -> None:
        """Forget a transaction that does not count."""
        entry = self._kept_transactions.pop(number, None)
        if entry is not None:
            self._release(entry[0])

    def _run(self, block: _RowBlock) -> EventBatch:
        if block.run is not None:
            return block.run
        if self._loaded_block is None or self._loaded_block[0] is not block:
            assert self._file is not None
            self._file.seek(block.place)
            self._loaded_block = block, pickle.load(self._file)  # noqa: S301 - written by `_spill`
        return self._loaded_block[1]

    def _release(self, block: _RowBlock) -> None:
        block.users -= 1
        if not block.users and self._in_memory.pop(id(block), None) is not None:
            self._bytes -= block.bytes


def copy_events(run: EventBatch, events: Offsets) -> EventBatch:
    """A copy of some events of a run that stays valid after the next one arrives."""
    headers = run.headers.take(events)
    begin, stop = headers.body - HEADER - 1, headers.end + _TAIL
    buffer = np.concatenate(
        [*(run.buffer[a:b] for a, b in zip(begin.tolist(), stop.tolist(), strict=True)), np.zeros(PADDING, np.uint8)]
    )
    moved = np.concatenate([[0], np.cumsum(stop - begin)[:-1]]) - begin
    headers = replace(headers, body=headers.body + moved, end=headers.end + moved)
    return EventBatch(buffer, headers, run.file, run.offset[events])


def rearrange(
    run: EventBatch,
    stay: Offsets,
    moving: Offsets,
    behind: Offsets,
    kept_transactions: Sequence[tuple[int, KeptTransaction]],
) -> EventBatch:
    """The events `stay` of a run, with `moving` ones behind others (`behind`, for each), and kept ones behind others.

    All are indices in the run. What moves gets the position of the event that it follows.
    """
    if not len(moving) and not kept_transactions:
        whole = len(stay) == len(run.headers)
        return run if whole else replace(run, headers=run.headers.take(stay), offset=run.offset[stay])
    index, after = np.concatenate([stay, moving]), np.concatenate([stay, behind])
    buffer, headers = run.buffer, run.headers
    if kept_transactions:
        buffer, headers, added = _append_kept(
            replace(run, headers=headers.take(index)), [one for _, one in kept_transactions]
        )
        index = np.arange(len(headers))
        after = np.concatenate([after, np.array([at for at, _ in kept_transactions], np.int64)[added]])
    follows = 2 * after
    follows[len(stay) :] += 1
    order = np.argsort(follows, kind="stable")
    return EventBatch(buffer, headers.take(index[order]), run.file, run.offset[after[order]])


def _append_kept(run: EventBatch, kept_transactions: Sequence[KeptTransaction]) -> tuple[Bytes, Headers, Offsets]:
    """The run and kept events behind it.

    The buffer, the headers, and for each kept event, which of `kept_transactions` it belongs to.
    """
    low, high = bounds(run)
    buffers, headers, owner = [run.buffer[low:high]], [run.headers.moved(-low)], list[Offsets]()
    size, groups = high - low, dict[int, list[int]]()
    for n, one in enumerate(kept_transactions):
        groups.setdefault(id(one.run), []).append(n)
    for numbers in groups.values():
        ranges = [np.arange(kept_transactions[n].begin, kept_transactions[n].end) for n in numbers]
        part = copy_events(kept_transactions[numbers[0]].run, np.concatenate(ranges))
        buffers.append(part.buffer)
        headers.append(part.headers.moved(size))
        owner.append(np.repeat(numbers, [len(one) for one in ranges]))
        size += len(part.buffer)
    buffer = np.concatenate([*buffers, np.zeros(PADDING, np.uint8)])
    return buffer, Headers.joined(headers), np.concatenate(owner)


def bounds(run: EventBatch) -> tuple[int, int]:
    """Where the run's bytes begin and end in its buffer, with checksums."""
    return max(int(run.headers.body.min()) - HEADER - 1, 0), min(int(run.headers.end.max()) + _TAIL, len(run.buffer))


def join(runs: Sequence[EventBatch]) -> EventBatch:
    """Several runs of one file as one, in a buffer of its own."""
    buffers, headers, size = [], [], 0
    for run in runs:
        low, high = bounds(run)
        buffers.append(run.buffer[low:high])
        headers.append(run.headers.moved(size - low))
        size += high - low
    buffer = np.concatenate([*buffers, np.zeros(PADDING, np.uint8)])
    return EventBatch(buffer, Headers.joined(headers), runs[0].file, np.concatenate([run.offset for run in runs]))
