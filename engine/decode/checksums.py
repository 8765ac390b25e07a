"""The CRC32 of binlog events, verified one block at a time.

Each event ends with the CRC32 of its bytes (`binlog_checksum=CRC32`, little-endian; "Log_event_footer", MySQL source,
libs/mysql/binlog/event). One call per event costs as much as decoding a small one. A block needs one call, because
CRC32 is linear:

* After an event and its own checksum, the register contains the same residue, whatever the event was.
* Between two events are the four bytes of a packet header, no longer needed, and the zero byte that starts the payload.
  Four chosen bytes there take the register from the residue back to where a new CRC32 begins.
* So the CRC32 of the whole block is the residue if every event is sound. A damaged event leaves a difference in the
  register, which later bytes permute but never lose: damage in one event is found exactly if its own checksum finds it.
  Damage in two events of a block cancels out once in 2**32 times, which is also how often one checksum misses random
  bytes.

Only a block that fails is checked event by event. `decode.stream` calls this for every block and raises the error.

zlib's CRC32 does 2 to 4 GB/s, a fifth of the time that decoding small events takes, and 40 % with large ones. The CPU's
own instructions, which the package `isal` uses, do 12 GB/s and take about 5 % and 10 %. Both return the same number.
"""

import importlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.decode.framing import Bytes, Offsets, words

CHECKSUM = 4
"""Bytes of checksum at the end of an event."""
RESIDUE = 0x2144DF1C
"""The CRC32 of any bytes followed by their own CRC32."""
STEER = 0x2AC0D92F
"""Four bytes, little-endian: `crc32(STEER, then a zero byte)` started at `RESIDUE` is the CRC32 of nothing, 0."""
_HEADER = 19
_IN_USE = 0x01
"""LOG_EVENT_BINLOG_IN_USE_F: set in a file's first event while the file is being written; not covered by
its checksum."""


def _fastest() -> Callable[[Any], int]:
    try:
        function: Callable[[Any], int] = importlib.import_module("isal.isal_zlib").crc32
    except ImportError:  # no wheel for this processor: slower, and as right
        return zlib.crc32
    return function


crc32 = _fastest()


def first_damaged(buffer: Bytes, start: Offsets, end: Offsets) -> int | None:
    """The index of the first event whose checksum is wrong; None if all are right.

    Event `i` is the payload `buffer[start[i]:end[i]]`: a zero byte, the event, its checksum. The packet headers between
    events are overwritten.
    """
    if not len(start):
        return None
    if not buffer.flags.writeable:
        buffer = buffer.copy()
    words(buffer, "<u4")[start[1:] - 4] = STEER
    if crc32(buffer[start[0] + 1 : end[-1]].data) == RESIDUE:
        return None
    events = zip(start.tolist(), end.tolist(), strict=True)
    return next((n for n, (a, b) in enumerate(events) if not is_sound(buffer[a + 1 : b])), None)


def is_sound(event: Bytes) -> bool:
    """Whether an event ends with its correct checksum."""
    return crc32(event.data) == RESIDUE and len(event) >= _HEADER + CHECKSUM


def is_sound_description(event: Bytes) -> bool:
    """As `is_sound`, for a file's FORMAT_DESCRIPTION event, which may say that the file is being written.

    For a dump that begins inside a file, the server changes the event. If the file has no checksums (algorithm 0), it
    leaves the event's own checksum as it was. The event passes then, unless the algorithm's byte itself was changed.
    """
    if len(event) < _HEADER + CHECKSUM + 1:
        return False
    cleared = np.array(event)
    cleared[17] &= ~np.uint8(_IN_USE)
    if is_sound(event) or is_sound(cleared):
        return True
    begins_within, algorithm = not event[13:17].any(), event[-CHECKSUM - 1]
    cleared[-CHECKSUM - 1] = 1
    return bool(begins_within and algorithm == 0 and not is_sound(cleared))
