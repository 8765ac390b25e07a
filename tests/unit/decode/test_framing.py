"""Packet boundaries: the vectorised walk finds what the plain loop and a naive parser find."""

import random
from collections.abc import Callable

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from engine.decode.framing import MAX_PAYLOAD, PADDING, grown, packet_starts, packet_starts_plainly
from tests.unit.support.wire import packets


def naive(data: bytes, at: int = 0) -> tuple[list[int], int]:
    """Parse one packet after the other."""
    starts = []
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 3], "little")
        if at + 4 + size > len(data):
            break
        starts.append(at)
        at += 4 + size
    return starts, at


def chain(n: int, rng: random.Random) -> bytes:
    """Packets within a packet, with ascending numbers, some of which end with it."""
    count, size = rng.randrange(3, 12), rng.randrange(6)
    return rng.randbytes(rng.randrange(3)) + packets([bytes(size)] * count, (n + rng.randrange(2)) % 256)


CONTENTS: dict[str, Callable[[int, random.Random], bytes]] = {
    "empty": lambda _, __: b"",
    "tiny": lambda _, rng: rng.randbytes(rng.randrange(4)),
    "rows": lambda _, rng: b"\0\0" + rng.randbytes(rng.randrange(20, 60)),
    "chains": chain,
    "zeros": lambda _, rng: bytes(rng.randrange(40)),
    "wide": lambda _, rng: bytes(rng.randrange(250, 600)),
    "changing": lambda n, rng: rng.randbytes(3 if n % 3000 < 1500 else 300),
    "mixed": lambda n, rng: CONTENTS[rng.choice(["empty", "tiny", "rows", "chains", "zeros"])](n, rng),
}


def filled(content: str, count: int, seed: int, cut: int) -> tuple[np.ndarray, int, bytes]:
    """A buffer of packets that ends `cut` bytes early, followed by hostile bytes."""
    rng = random.Random(seed)
    data = packets([CONTENTS[content](n, rng) for n in range(count)], rng.randrange(256))
    data = data[: max(0, len(data) - cut)]
    return np.frombuffer(data + b"\1\0\0\0" * (PADDING // 4), np.uint8).copy(), len(data), data


@given(
    st.sampled_from(sorted(CONTENTS)),
    st.integers(0, 40) | st.integers(1200, 9000),
    st.integers(0, 2**32),
    st.integers(0, 9) | st.integers(0, 3000),
)
@example("chains", 6000, 1, 2)
@example("empty", 9000, 2, 0)
@example("changing", 9000, 3, 1)
def test_lanes_find_the_boundaries_that_the_plain_loop_finds(content: str, count: int, seed: int, cut: int) -> None:
    """Whatever the payloads, wherever the buffer ends: three parsers find the same boundaries."""
    buffer, size, data = filled(content, count, seed, cut)
    starts, end = packet_starts(buffer, size)
    plain, plain_end = packet_starts_plainly(buffer, size)
    assert (starts.tolist(), end) == (plain.tolist(), plain_end) == naive(data)


@given(st.integers(0, 2**32), st.integers(0, 50))
def test_the_search_starts_at_the_given_offset(seed: int, skipped: int) -> None:
    """From the start of any packet, the rest is found."""
    buffer, size, data = filled("mixed", 2000, seed, 0)
    at = naive(data)[0][skipped]
    starts, end = packet_starts(buffer, size, at)
    assert (starts.tolist(), end) == naive(data, at)


@given(st.integers(0, 2**32))
def test_a_payload_full_of_a_false_chain_does_not_mislead(seed: int) -> None:
    """A long packet contains thousands of well-formed false packets; none is taken for real."""
    rng = random.Random(seed)
    false = packets([bytes(12)] * rng.randrange(2000, 4000), rng.randrange(256))[rng.randrange(20) :]
    true = [bytes(12)] * 1500
    data = packets([*true, false, *true, false, *true])
    buffer = np.frombuffer(data + bytes(PADDING), np.uint8).copy()
    starts, end = packet_starts(buffer, len(data))
    assert (starts.tolist(), end) == naive(data)


def test_a_packet_of_the_largest_size_is_one_packet() -> None:
    """16 MiB less one byte, and the packet that continues it."""
    data = packets([bytes(3), bytes(MAX_PAYLOAD), b"tail"])
    buffer = np.frombuffer(data + bytes(PADDING), np.uint8).copy()
    starts, end = packet_starts(buffer, len(data))
    assert (starts.tolist(), end) == ([0, 7, 7 + 4 + MAX_PAYLOAD], len(data))


def test_a_larger_buffer_keeps_what_is_filled() -> None:
    """Growing doubles the buffer and copies the filled part."""
    buffer = np.arange(100, dtype=np.uint8)
    larger = grown(buffer, 60)
    assert len(larger) == 200
    assert larger[:60].tolist() == buffer[:60].tolist()
