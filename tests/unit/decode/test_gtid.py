"""GTID sets behave as sets of (server, number)."""

import struct
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.gtid import GtidSet, gtid_set_of, parse_gtid_set, read_previous_gtids
from engine.errors import SourceLostError

SERVERS = [uuid.UUID(int=n) for n in (1, 2**64, 2**127 + 5)]
Members = set[tuple[str, int]]

members = st.sets(st.tuples(st.sampled_from([str(s) for s in SERVERS]), st.integers(1, 12) | st.integers(1, 2**62)))


def members_of(gtids: GtidSet) -> Members:
    """Every single one; intervals are short here."""
    return {(sid, n) for sid, intervals in gtids.intervals.items() for a, b in intervals for n in range(a, b + 1)}


def made(of: Members) -> GtidSet:
    """The engine's set of these transactions, as it makes one out of events."""
    return gtid_set_of(*_arrays(of))


def normal(gtids: GtidSet) -> bool:
    """Sorted, and neither overlapping nor touching."""
    return all(
        a <= b and (not n or intervals[n - 1][1] + 1 < a)
        for intervals in gtids.intervals.values()
        for n, (a, b) in enumerate(intervals)
    )


@given(members)
def test_the_set_of_many_transactions_holds_each_of_them(of: Members) -> None:
    """In any order, of any servers, in normal form; given twice it is the same."""
    gtids = made(of)
    assert members_of(gtids) == of
    assert normal(gtids)
    sources, source, number = _arrays(of)
    twice = gtid_set_of(sources, np.concatenate([source, source[::-1]]), np.concatenate([number, number[::-1]]))
    assert str(twice) == str(gtids)


def _arrays(of: Members) -> tuple[list[str], np.ndarray, np.ndarray]:
    sources = ["", *(f"{sid}:" for sid in SERVERS)]
    source = np.array([sources.index(f"{sid}:") for sid, _ in of], np.int64)
    return sources, source, np.array([n for _, n in of], np.int64)


@given(members, members)
def test_union_is_the_union(a: Members, b: Members) -> None:
    """Overlapping sets too: replays overlap by design."""
    union = made(a).union(made(b))
    assert members_of(union) == a | b
    assert normal(union)
    assert str(union) == str(made(a | b)) == str(made(b).union(made(a)))


@given(members)
def test_text_is_read_back(of: Members) -> None:
    """`parse_gtid_set` is the inverse of `str`, with the server's line breaks too."""
    gtids = made(of)
    assert members_of(parse_gtid_set(str(gtids))) == of
    assert members_of(parse_gtid_set(str(gtids).replace(",", ",\n").upper())) == of


def test_text_is_as_the_server_writes_it() -> None:
    """Lone numbers without a dash, servers in order."""
    first, second = (str(s) for s in SERVERS[:2])
    assert str(parse_gtid_set(f"{second}:1-3, {first}:7:1-5:6")) == f"{first}:1-7,{second}:1-3"
    assert str(parse_gtid_set("")) == ""


@pytest.mark.parametrize(
    "text", ["x", "{}", "{}:", "{}:a", "{}:5-3", "{}:0", "{}:-1", "{}:1--5", "{}:tag:1-5", "{}:1-2-3"]
)
def test_other_texts_are_refused(text: str) -> None:
    """Tagged ones among them: a set that is not understood must not look smaller than it is."""
    with pytest.raises(ValueError):  # noqa: PT011 - uuid, int and we each say it in their own words
        parse_gtid_set(text.format(SERVERS[0]))


@given(members)
def test_previous_gtids_are_read(of: Members) -> None:
    """The event holds intervals with exclusive ends."""
    gtids = made(of)
    body = struct.pack("<Q", len(gtids.intervals))
    for sid, intervals in gtids.intervals.items():
        body += uuid.UUID(sid).bytes + struct.pack("<Q", len(intervals))
        body += b"".join(struct.pack("<qq", a, b + 1) for a, b in intervals)
    assert members_of(read_previous_gtids(body)) == of
    if of:
        with pytest.raises(SourceLostError):
            read_previous_gtids(body[:-1])


def test_tagged_previous_gtids_are_refused() -> None:
    """MySQL marks the format with tags in the highest byte of the count."""
    with pytest.raises(SourceLostError, match="tagged"):
        read_previous_gtids(struct.pack("<Q", 1 << 56 | 3) + bytes(40))
