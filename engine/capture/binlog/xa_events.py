"""XA statements in the binlog.

Four of the events of an XA transaction are statements. They are distinguished in bulk, because servers that use XA log thousands of
them each second.
"""

import re

import numpy as np
import numpy.typing as npt

from engine.decode.framing import Offsets, words
from engine.decode.stream import EventBatch
from engine.source.xa_places import Xid

_DECISION = re.compile(rb"(?i)\s*XA\s+(COMMIT|ROLLBACK)\s+X'([0-9a-f]*)',X'([0-9a-f]*)',(-?\d+)")
_CASE = np.uint64(0x2020202020202020)
_FIRST_BYTES = np.uint64(0xFFFFFF)


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


def xa_statements(run: EventBatch, queries: Offsets) -> npt.NDArray[np.bool_]:
    """Which of these QUERY events are XA statements. These alter no table."""
    return np.asarray((_statement_words(run, queries) | _CASE) & _FIRST_BYTES == _word(b"xa "))


def opens_or_ends(run: EventBatch, queries: Offsets) -> npt.NDArray[np.bool_]:
    """Which of these QUERY events are XA START or XA END: they decide nothing."""
    word = _statement_words(run, queries) | _CASE
    return np.asarray((word == _word(b"xa start")) | (word == _word(b"xa end x")))


def _statement_words(run: EventBatch, queries: Offsets) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each statement. (A QUERY event's body: 13 bytes, status variables, database, NUL, statement.)"""
    loads, body = words(run.buffer), run.headers.body[queries]
    status, database = loads[body + 11] & np.uint64(0xFFFF), loads[body + 8] & np.uint64(0xFF)
    at = body + 14 + status.astype(np.int64) + database.astype(np.int64)
    return np.asarray(loads[np.minimum(at, len(loads) - 1)])  # `read_query` refuses an event that is too short


def decision(body: bytes) -> tuple[bool, Xid] | None:
    """Whether a QUERY event's statement commits an XA transaction, and which; None if it decides none."""
    at = 14 + int.from_bytes(body[11:13], "little") + body[8]
    match = _DECISION.match(body, at)
    if match is None:
        return None
    verb, gtrid, bqual, form = match.groups()
    xid = (bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode()), int(form) & 0xFFFFFFFF)
    return verb.upper() == b"COMMIT", xid
