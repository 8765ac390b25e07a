"""The row events of prepared XA transactions, kept from the first reading until the transaction is decided.

Servers log the rows of an XA transaction at its PREPARE, and they count at its COMMIT. To read them there again would take a dump
for each transaction. So their table maps and row events are kept: in memory up to a limit, then in a temporary file, up to another
one. What is not kept (a transaction that a block of the dump did not contain whole, or one beyond the limits) is read again.

At its COMMIT, a transaction's events are spliced into the run behind the COMMIT, with its position. That holds within one binlog
file: a server that restarts numbers its tables from the beginning.
"""

import pickle
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from engine.decode.binlog_events import HEADER, Headers
from engine.decode.framing import PADDING, Offsets
from engine.decode.stream import EventBatch

MOST_MEMORY = 64 << 20
MOST_SPILLED = 1 << 30
_OVERHEAD = 4096
"""Bytes of memory of a block in addition to its buffer."""
_TAIL = 4


class _Block:
    """Events of one run, in memory or in the file."""

    def __init__(self, run: EventBatch) -> None:
        self.run: EventBatch | None = run
        self.file, self.bytes = run.file, len(run.buffer) + _OVERHEAD + 80 * len(run.headers)
        self.place = 0
        self.users = 0


@dataclass(frozen=True)
class Kept:
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
        self._kept: dict[int, tuple[_Block, int, int] | None] = {}
        self._in_memory: dict[int, _Block] = {}
        self._bytes = self._spilled = 0
        self._file: IO[bytes] | None = None
        self._loaded: tuple[_Block, EventBatch] | None = None

    def keep(self, run: EventBatch | None, parts: Sequence[tuple[int, int, int]]) -> None:
        """Keep transactions of one run: number, first event and end of each. run: valid until dropped; None if it has no events."""
        block = None if run is None else _Block(run)
        if block is not None and not self._has_room(block.bytes):
            parts = [part for part in parts if part[1] == part[2]]
            block = None
        for number, begin, end in parts:
            self._kept[number] = None if begin == end or block is None else (block, begin, end)
            if block is not None and begin != end:
                block.users += 1
        if block is not None and block.users:
            self._in_memory[id(block)] = block
            self._bytes += block.bytes

    def _has_room(self, size: int) -> bool:
        """Whether a block can be kept; others are moved to the file for that."""
        while self._in_memory and self._bytes + size > MOST_MEMORY:
            block = next(iter(self._in_memory.values()))
            if self._spilled + block.bytes > MOST_SPILLED:
                return False
            self._spill(self._in_memory.pop(id(block)))
            self._bytes -= block.bytes
        return self._bytes + size <= MOST_MEMORY

    def _spill(self, block: _Block) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="tidemark-prepared-")  # noqa: SIM115 - it lives as long as this object
            weakref.finalize(self, self._file.close)
        block.place = self._file.seek(0, 2)
        pickle.dump(block.run, self._file, protocol=5)
        self._spilled += block.bytes
        block.run = None

    def take(self, number: int) -> Kept | str | None:
        """Return a transaction's events and forget them; `NOTHING` if it has none, None if they were not kept."""
        if number not in self._kept:
            return None
        entry = self._kept.pop(number)
        if entry is None:
            return NOTHING
        block, begin, end = entry
        run = self._run(block)
        self._release(block)
        return Kept(run, begin, end)

    def drop(self, number: int) -> None:
        """Forget a transaction that does not count."""
        entry = self._kept.pop(number, None)
        if entry is not None:
            self._release(entry[0])

    def _run(self, block: _Block) -> EventBatch:
        if block.run is not None:
            return block.run
        if self._loaded is None or self._loaded[0] is not block:
            assert self._file is not None
            self._file.seek(block.place)
            self._loaded = block, pickle.load(self._file)  # noqa: S301 - written by `_spill`
        return self._loaded[1]

    def _release(self, block: _Block) -> None:
        block.users -= 1
        if not block.users and self._in_memory.pop(id(block), None) is not None:
            self._bytes -= block.bytes


def compacted(run: EventBatch, chosen: Offsets) -> EventBatch:
    """A copy of some events of a run that stays valid after the next one arrives."""
    headers = run.headers.take(chosen)
    begin, stop = headers.body - HEADER - 1, headers.end + _TAIL
    buffer = np.concatenate(
        [*(run.buffer[a:b] for a, b in zip(begin.tolist(), stop.tolist(), strict=True)), np.zeros(PADDING, np.uint8)]
    )
    moved = np.concatenate([[0], np.cumsum(stop - begin)[:-1]]) - begin
    headers = replace(headers, body=headers.body + moved, end=headers.end + moved)
    return EventBatch(buffer, headers, run.file, run.offset[chosen])


def spliced(run: EventBatch, splices: Sequence[tuple[int, Kept]]) -> EventBatch:
    """The run with kept events behind some of its events: behind so many events each, in order, with the position there."""
    low = max(int(run.headers.body.min()) - HEADER - 1, 0)
    high = min(int(run.headers.end.max()) + _TAIL, len(run.buffer))
    buffers, headers = [run.buffer[low:high]], [run.headers.moved(-low)]
    base, count = {}, {}
    size, events = high - low, len(run.headers)
    for _, kept in splices:
        if id(kept.run) not in base:
            base[id(kept.run)], count[id(kept.run)] = size, events
            buffers.append(kept.run.buffer)
            headers.append(kept.run.headers.moved(size))
            size, events = size + len(kept.run.buffer), events + len(kept.run.headers)
    order, offsets, at = [], [], 0
    for behind, kept in splices:
        order += [np.arange(at, behind), count[id(kept.run)] + np.arange(kept.begin, kept.end)]
        offsets += [run.offset[at:behind], np.full(kept.end - kept.begin, run.offset[behind - 1])]
        at = behind
    order.append(np.arange(at, len(run.headers)))
    offsets.append(run.offset[at:])
    buffer = np.concatenate([*buffers, np.zeros(PADDING, np.uint8)])
    return EventBatch(buffer, Headers.joined(headers).take(np.concatenate(order)), run.file, np.concatenate(offsets))
