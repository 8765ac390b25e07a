"""The XA events of the binlog, recognised in bulk: servers that use XA log tens of thousands of them each second.

A transaction is identified by its *key*, the body of its XA_PREPARE event from the format id on: the format id, the
lengths of gtrid and bqual (4 bytes each, little-endian), gtrid and bqual. The keys of a run are the rows of a matrix,
padded with zeros. The lengths in them keep them distinct.

A COMMIT or ROLLBACK is a statement in which gtrid and bqual are hexadecimal: `XA COMMIT X'0a0b',X'',1`. Statements of
one length mostly differ only in these digits. So one is read as text and is the template of the others. They must equal
it in every other byte, and have hexadecimal digits where it has some. A statement that equals no template is read on
its own.
"""

import re
import string
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.decode.binlog_events import Kind
from engine.decode.framing import Offsets, broken, words
from engine.decode.stream import EventBatch
from engine.source.xa_places import Xid

U64 = npt.NDArray[np.uint64]
PREPARE, COMMIT, ROLLBACK = 0, 1, 2
_DECISION = re.compile(rb"(?i)\s*XA\s+(COMMIT|ROLLBACK)\s+X'([0-9a-f]*)',X'([0-9a-f]*)',(-?\d+)")
_CASE = np.uint64(0x2020202020202020)
_FIRST_BYTES = np.uint64(0xFFFFFF)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MOST_TEMPLATES = 8
_FEWEST_ALIKE = 8
"""For fewer statements, a template costs more than it saves."""
_HEAD = 12
"""Bytes of a key before gtrid."""
_NO_DIGIT = 0xFF
_DIGITS = bytes(int(chr(byte), 16) if chr(byte) in string.hexdigits else _NO_DIGIT for byte in range(256))
"""The value of each hexadecimal digit."""


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_XA, _START, _END = _word(b"xa "), _word(b"xa start"), _word(b"xa end x")


def xid_of(key: bytes) -> Xid:
    """The id of the transaction with this key, which may be padded."""
    form, gtrid, bqual = struct.unpack_from("<III", key)
    return key[_HEAD : _HEAD + gtrid], key[_HEAD + gtrid : _HEAD + gtrid + bqual], form


def key_of(xid: Xid) -> bytes:
    """The key of a transaction's id."""
    gtrid, bqual, form = xid
    return struct.pack("<III", form, len(gtrid), len(bqual)) + gtrid + bqual


def xa_statements(run: EventBatch, queries: Offsets) -> npt.NDArray[np.bool_]:
    """Which of these QUERY events are XA statements. These alter no table."""
    return np.asarray((_statement_words(run, queries)[1] | _CASE) & _FIRST_BYTES == _XA)


def _statement_words(run: EventBatch, queries: Offsets) -> tuple[Offsets, U64]:
    """The offset and the first eight bytes of each statement.

    (A QUERY event's body: 13 bytes, status variables, database, NUL, statement.)
    """
    loads, body = words(run.buffer), run.headers.body[queries]
    sizes = loads[body + 8]  # of the database in the first byte, of the status variables in the fourth and fifth
    at = body + 14 + ((sizes >> np.uint64(24) & np.uint64(0xFFFF)) + (sizes & np.uint64(0xFF))).astype(np.int64)
    return at, np.asarray(loads[np.minimum(at, len(loads) - 1)])  # `read_query` refuses an event that is too short


@dataclass(frozen=True)
class XaEvents:
    """The XA events of a run. Events are given by their index in the run."""

    event: Offsets
    """PREPAREs, COMMITs and ROLLBACKs, in order; without PREPAREs that commit at once."""
    verb: npt.NDArray[np.int8]
    """Which of these they are."""
    keys: U64
    """Their keys, one a row."""
    idle: Offsets
    """XA START and XA END statements, which decide nothing."""
    other_events: Offsets
    """The statements that have nothing to do with XA."""


@dataclass(frozen=True)
class _XaPart:
    """Some XA events: a verb and a key for each."""

    event: Offsets
    verb: int
    keys: U64


def xa_events(run: EventBatch, queries: Offsets) -> XaEvents:
    """The XA events of a run. queries: its QUERY events but BEGIN and COMMIT."""
    at, word = _statement_words(run, queries)
    word = word | _CASE
    idle = (word == _START) | (word == _END)
    rest, is_xa = queries[~idle], word[~idle] & _FIRST_BYTES == _XA
    parts = [*_prepares(run), *_decisions(run, rest[is_xa], at[~idle][is_xa])]
    for n in rest[~is_xa].tolist():
        parts += _alone(run, n)
    other = np.ones(len(run.headers), bool)
    for part in parts:
        other[part.event] = False
    return XaEvents(*_merge(parts), queries[idle], rest[other[rest]])


def _merge(parts: Sequence[_XaPart]) -> tuple[Offsets, npt.NDArray[np.int8], U64]:
    count = sum(len(part.event) for part in parts)
    keys = np.zeros((count, max((part.keys.shape[1] for part in parts), default=1)), np.uint64)
    event, verb, done = np.zeros(count, np.int64), np.zeros(count, np.int8), 0
    for part in parts:
        rows = slice(done, done + len(part.event))
        event[rows], verb[rows], keys[rows, : part.keys.shape[1]] = part.event, part.verb, part.keys
        done = rows.stop
    order = np.argsort(event, kind="stable")
    return event[order], verb[order], keys[order]


def _prepares(run: EventBatch) -> list[_XaPart]:
    """The PREPAREs of two-phase commits, one part for each length of their keys."""
    events = np.flatnonzero(run.headers.kind == Kind.XA_PREPARE)
    if not len(events):
        return []
    loads, body, end = words(run.buffer), run.headers.body[events], run.headers.end[events]
    if (end - body < _HEAD + 1).any():
        raise broken("XA_PREPARE")
    lengths = loads[body + 5]
    size = _HEAD + ((lengths & _LOW_HALF) + (lengths >> np.uint64(32))).astype(np.int64)
    if (body + 1 + size > end).any():
        raise broken("XA_PREPARE")
    two_phase, parts = run.buffer[body] == 0, list[_XaPart]()
    for width in np.unique(size).tolist():
        chosen = two_phase & (size == width)
        parts.append(_XaPart(events[chosen], PREPARE, _texts(run, body[chosen] + 1, width)))
    return parts


def _texts(run: EventBatch, at: Offsets, width: int) -> U64:
    """The bytes from each offset on, a row each, padded with zeros. The buffer has padding for the last word."""
    texts: U64 = words(run.buffer)[at[:, None] + np.arange(0, width, 8)]
    if width % 8:
        texts[:, -1] &= np.uint64((1 << 8 * (width % 8)) - 1)
    return texts


def _pack(key: bytes) -> U64:
    """A key as a row."""
    return np.frombuffer(key.ljust(-(-len(key) // 8) * 8, b"\0"), np.uint64)[None]


def _alone(run: EventBatch, n: int) -> list[_XaPart]:
    """The decision that a QUERY event contains, if any."""
    outcome = decision(run.body(n))
    return [] if outcome is None else [_XaPart(np.array([n]), COMMIT if outcome[0] else ROLLBACK, _pack(outcome[1]))]


def _decisions(run: EventBatch, events: Offsets, at: Offsets) -> list[_XaPart]:
    """The COMMITs and ROLLBACKs among XA statements, which begin at these offsets."""
    size, parts = run.headers.end[events] - at, list[_XaPart]()
    for _ in range(_MOST_TEMPLATES):
        if len(events) < _FEWEST_ALIKE:
            break
        mask = np.zeros(len(events), bool)
        template = _Template.of(run.buffer[at[0] : at[0] + size[0]].tobytes())
        if template is None:
            parts += _alone(run, int(events[0]))
            mask[0] = True
        else:
            alike = np.flatnonzero(size == len(template.text))
            equal, keys = template.keys(_texts(run, at[alike], len(template.text)))
            mask[alike[equal]] = True
            parts.append(_XaPart(events[mask], template.verb, keys))
        events, at, size = events[~mask], at[~mask], size[~mask]
    for n in events.tolist():
        parts += _alone(run, n)
    return parts


@dataclass(frozen=True)
class _Template:
    """A statement that decides a transaction, and where its hexadecimal digits are."""

    text: bytes
    digits: tuple[slice, slice]
    """Of gtrid and bqual."""
    verb: int
    head: bytes
    """The first bytes of the key."""

    @staticmethod
    def of(text: bytes) -> "_Template | None":
        """None if the text is not such a statement from its first to its last byte."""
        match = _DECISION.fullmatch(text)
        if match is None or len(match[2]) % 2 or len(match[3]) % 2:
            return None
        digits = slice(*match.span(2)), slice(*match.span(3))
        head = struct.pack("<III", int(match[4]) & 0xFFFFFFFF, len(match[2]) // 2, len(match[3]) // 2)
        return _Template(text, digits, COMMIT if match[1].upper() == b"COMMIT" else ROLLBACK, head)

    def keys(self, statements: U64) -> tuple[npt.NDArray[np.bool_], U64]:
        """Which statements equal the template except for the digits, and their keys."""
        text, fixed = _pack(self.text), np.full(statements.shape[1] * 8, 0xFF, np.uint8)
        for digits in self.digits:
            fixed[digits] = 0
        equal = ((statements ^ text) & fixed.view(np.uint64) == 0).all(axis=1)
        chosen = statements if equal.all() else statements[equal]
        written = np.concatenate([chosen.view(np.uint8)[:, digits] for digits in self.digits], axis=1)
        values = np.frombuffer(bytearray(written).translate(_DIGITS), np.uint8).reshape(written.shape)
        if (strange := (values == _NO_DIGIT).any(axis=1)).any():
            equal[equal], values = ~strange, values[~strange]
        size = _HEAD + sum(digits.stop - digits.start for digits in self.digits) // 2
        keys = np.zeros((len(values), -(-size // 8) * 8), np.uint8)
        keys[:, :_HEAD] = np.frombuffer(self.head, np.uint8)
        keys[:, _HEAD:size] = values[:, ::2] << 4 | values[:, 1::2]
        return equal, keys.view(np.uint64)


def decision(body: bytes) -> tuple[bool, bytes] | None:
    """Whether a QUERY event's statement commits an XA transaction, and its key; None if it decides none."""
    at = 14 + int.from_bytes(body[11:13], "little") + body[8]
    match = _DECISION.match(body, at)
    if match is None:
        return None
    verb, gtrid, bqual, form = match.groups()
    xid = (bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode()), int(form) & 0xFFFFFFFF)
    return verb.upper() == b"COMMIT", key_of(xid)
