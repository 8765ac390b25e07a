"""Checksums: a single flipped bit in an event is found, and the stream stays in front of that event."""

import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BinlogDamagedError, SourceLostError
from engine.decode.binlog_events import Kind
from engine.decode.checksums import RESIDUE, STEER, first_damaged
from engine.decode.stream import EventBatch, StreamPosition
from tests.unit.support.wire import Binlog, laid_out


def log_of(bodies: list[bytes], *, checksum: bool = True) -> Binlog:
    """A file with rotation, format description, and one event per body."""
    log = Binlog(checksum=checksum)
    for body in bodies:
        log.add(Kind.WRITE_ROWS, body)
    return log


def batches_of(log: Binlog, payloads: list[bytes], position: StreamPosition | None = None) -> list[EventBatch]:
    """The event batches of a stream that comes in one block."""
    return list((position or StreamPosition(log.file, 4)).runs(*laid_out(payloads)))


def flipped(payload: bytes, bit: int) -> bytes:
    """The payload with one bit of its event flipped; the leading zero byte stays."""
    changed = bytearray(payload)
    changed[1 + bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_the_steering_bytes_begin_a_checksum_again() -> None:
    """The arithmetic that makes one call per block possible."""
    assert zlib.crc32(STEER.to_bytes(4, "little") + b"\0", RESIDUE) == 0
    assert {zlib.crc32(m + zlib.crc32(m).to_bytes(4, "little")) for m in (b"", b"a", bytes(99))} == {RESIDUE}


@pytest.mark.parametrize("event", [0, 1, 2, 4, 5])
def test_one_flipped_bit_is_found_wherever_it_is(event: int) -> None:
    """In rotation, description and rows; every bit of header, body and checksum. The events before it are returned."""
    log = log_of([b"", b"abc", bytes(40), b"x" * 9])
    for bit in range((len(log.payloads[event]) - 1) * 8):
        if event == 1 and bit == 17 * 8:
            continue  # the in-use flag, which is no part of the checksum
        payloads = [flipped(p, bit) if n == event else p for n, p in enumerate(log.payloads)]
        position, passed = StreamPosition(log.file, 4), 0
        with pytest.raises(BinlogDamagedError) as raised:  # noqa: PT012 - what is handed out before is counted
            for run in position.runs(*laid_out(payloads)):
                passed += len(run.headers)
        assert passed == event
        sizes = [len(p) - 1 for p in log.payloads]
        assert position.offset == 4 + sum(sizes[1:event])
        assert f"{log.file}:{position.offset}" in raised.value.message


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=30),
    st.data(),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_damage_of_any_kind_is_found(bodies: list[bytes], data: st.DataObject, cuts: list[int]) -> None:
    """Several bytes of several events, however the stream is split: the first damaged event is named."""
    log = log_of(bodies)
    victims = data.draw(st.sets(st.integers(2, len(log.payloads) - 1), min_size=1, max_size=3))
    payloads = list(log.payloads)
    for n in victims:
        changed = bytearray(payloads[n])
        for at in data.draw(st.sets(st.integers(1, len(changed) - 1), min_size=1, max_size=4)):
            changed[at] ^= data.draw(st.integers(1, 255))
        payloads[n] = bytes(changed)
    position, edges = StreamPosition(log.file, 4), sorted({0, len(payloads), *(c for c in cuts if c < len(payloads))})
    passed = 0
    with pytest.raises(SourceLostError):  # noqa: PT012 - what is handed out before is counted
        for a, b in pairwise(edges):
            for run in position.runs(*laid_out(payloads[a:b])):
                passed += len(run.headers)
    assert passed == min(victims)


def test_the_whole_block_is_as_sound_as_its_events() -> None:
    """The check of a block agrees with the check of each event, with and without damage, on a read-only buffer."""
    log = log_of([bytes([n]) * n for n in range(200)])
    buffer, start, end = laid_out(log.payloads[2:])
    assert first_damaged(buffer.copy(), start, end) is None
    frozen = buffer.copy()
    frozen.flags.writeable = False
    assert first_damaged(frozen, start, end) is None
    for victim in (0, 57, 199):
        changed = buffer.copy()
        changed[start[victim] + 25 if victim else end[0] - 1] ^= 4
        assert first_damaged(changed, start, end) == victim
    assert first_damaged(buffer, start[:0], end[:0]) is None


def test_a_file_that_is_being_written_opens_like_one_that_is_closed() -> None:
    """The in-use flag of the format description is not part of its checksum."""
    log = log_of([b"abc"])
    log.payloads[1] = flipped(log.payloads[1], 17 * 8)
    assert sum(len(run.headers) for run in batches_of(log, log.payloads)) == 3


def test_without_checksums_only_sizes_are_compared() -> None:
    """`binlog_checksum=NONE`: a changed byte passes, a changed size does not; the description always has a checksum."""
    log = log_of([b"abc", b"def"], checksum=False)
    body = [*log.payloads[:3], flipped(log.payloads[3], 20 * 8)]
    assert sum(len(run.headers) for run in batches_of(log, body)) == 4
    with pytest.raises(BinlogDamagedError, match="its size"):
        batches_of(log, [*log.payloads[:3], flipped(log.payloads[3], 9 * 8)])
    with pytest.raises(BinlogDamagedError, match="checksum"):
        batches_of(log, [log.payloads[0], flipped(log.payloads[1], 30 * 8)])


def test_a_description_that_the_server_changed_passes_in_a_file_without_checksums() -> None:
    """A dump from within a file clears the description's position; a changed algorithm is still found."""
    plain, summed = (log_of([b"abc"], checksum=checksum) for checksum in (False, True))
    changed = bytearray(plain.payloads[1])
    changed[14:18] = bytes(4)
    assert (
        sum(len(run.headers) for run in batches_of(plain, [plain.payloads[0], bytes(changed), plain.payloads[2]])) == 3
    )
    event = bytearray(summed.payloads[1][1:-4])
    event[13:17] = bytes(4)
    whole = b"\0" + event + zlib.crc32(event).to_bytes(4, "little")
    assert sum(len(run.headers) for run in batches_of(summed, [summed.payloads[0], whole, summed.payloads[2]])) == 3
    with pytest.raises(BinlogDamagedError):
        batches_of(summed, [summed.payloads[0], flipped(whole, (len(event) - 1) * 8), summed.payloads[2]])


def test_a_file_with_checksums_may_follow_one_without() -> None:
    """Each description applies to the events behind it; the rotation in between follows the old file."""
    first, second = Binlog("bin.000009", checksum=False), Binlog("bin.000010")
    first.commit()
    first.rotate("bin.000010")
    second.commit()
    payloads = [*first.payloads, *second.payloads]
    position = StreamPosition("bin.000009", 4)
    assert sum(len(run.headers) for run in batches_of(first, payloads, position)) == len(payloads)
    assert (position.file, position.offset) == ("bin.000010", second.position)


def test_a_rotation_to_a_stranger_is_refused() -> None:
    """A rotation without a valid checksum must name the requested file."""
    log = Binlog("bin.000001", checksum=False)
    with pytest.raises(BinlogDamagedError):
        batches_of(log, log.payloads, StreamPosition("other.000001", 4))
    assert np.all([run.file == "bin.000001" for run in batches_of(log, log.payloads)])
