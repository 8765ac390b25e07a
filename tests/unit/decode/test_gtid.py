"""GTID sets behave as sets of (server, number)."""

import struct
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SourceLostError
from engine.decode.gtid import (
    GtidPosition,
    GtidSet,
    gtid_set_of,
    joined,
    parse_gtid_position,
    parse_gtid_set,
)
from engine.decode.gtid_events import TaggedGtid, read_gtid_list, read_previous_gtids, read_tagged_gtid

SERVERS = [uuid.UUID(int=n) for n in (1, 2**64, 2**127 + 5)]
Membership = set[tuple[str, int]]

members = st.sets(st.tuples(st.sampled_from([str(s) for s in SERVERS]), st.integers(1, 12) | st.integers(1, 2**62)))


def members_of(gtids: GtidSet) -> Membership:
    """All members; the intervals are short here."""
    return {(sid, n) for sid, intervals in gtids.intervals.items() for a, b in intervals for n in range(a, b + 1)}


def made(of: Membership) -> GtidSet:
    """The engine's set of these transactions, built from events."""
    return gtid_set_of(*_arrays(of))


def normal(gtids: GtidSet) -> bool:
    """Sorted, and neither overlapping nor touching."""
    return all(
        a <= b and (not n or intervals[n - 1][1] + 1 < a)
        for intervals in gtids.intervals.values()
        for n, (a, b) in enumerate(intervals)
    )


@given(members)
def test_the_set_of_many_transactions_holds_each_of_them(of: Membership) -> None:
    """In any order, of any servers, in normal form; duplicates change nothing."""
    gtids = made(of)
    assert members_of(gtids) == of
    assert normal(gtids)
    sources, source, number = _arrays(of)
    twice = gtid_set_of(sources, np.concatenate([source, source[::-1]]), np.concatenate([number, number[::-1]]))
    assert str(twice) == str(gtids)


def _arrays(of: Membership) -> tuple[list[str], np.ndarray, np.ndarray]:
    sources = ["", *(f"{sid}:" for sid in SERVERS)]
    source = np.array([sources.index(f"{sid}:") for sid, _ in of], np.int64)
    return sources, source, np.array([n for _, n in of], np.int64)


@given(members, members)
def test_union_is_the_union(a: Membership, b: Membership) -> None:
    """Also of overlapping sets, as replays overlap by design."""
    union = made(a).union(made(b))
    assert members_of(union) == a | b
    assert normal(union)
    assert str(union) == str(made(a | b)) == str(made(b).union(made(a)))


@given(members)
def test_text_is_read_back(of: Membership) -> None:
    """`parse_gtid_set` inverts `str`, and accepts the server's line breaks."""
    gtids = made(of)
    assert members_of(parse_gtid_set(str(gtids))) == of
    assert members_of(parse_gtid_set(str(gtids).replace(",", ",\n").upper())) == of


def test_text_is_as_the_server_writes_it() -> None:
    """Single numbers without a dash, servers in order."""
    first, second = (str(s) for s in SERVERS[:2])
    assert str(parse_gtid_set(f"{second}:1-3, {first}:7:1-5:6")) == f"{first}:1-7,{second}:1-3"
    assert str(parse_gtid_set("")) == ""


@pytest.mark.parametrize(
    "text", ["x", "{}", "{}:", "{}:a", "{}:5-3", "{}:0", "{}:-1", "{}:1--5", "{}:tag", "{}:1:tag", "{}:1-2-3"]
)
def test_other_texts_are_refused(text: str) -> None:
    """A set that cannot be parsed must not appear smaller."""
    with pytest.raises(ValueError):  # noqa: PT011 - uuid, int and we each say it in their own words
        parse_gtid_set(text.format(SERVERS[0]))


@given(members)
def test_previous_gtids_are_read(of: Membership) -> None:
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


SID = "b4ecf2b5-e602-11f1-a4fc-02fc00000001"
TAGGED = bytes.fromhex(
    "027a00000002d102b103c903d50299030422c5039102f10304f10300000002"
    "0404060c6d795f74616708080a0c0c7ff487d2a9d160061065041283120b"
)
"""As MySQL 9.7 wrote it, without checksum."""
PREVIOUS = bytes.fromhex(
    "0103000000000001"
    "b4ecf2b5e60211f1a4fc02fc0000000100010000000000000001000000000000000400000000000000"
    "b4ecf2b5e60211f1a4fc02fc000000010262010000000000000001000000000000000200000000000000"
    "b4ecf2b5e60211f1a4fc02fc000000010c6d795f746167010000000000000001000000000000000300000000000000"
)


def test_tagged_events_are_read() -> None:
    """Events from MySQL; truncated ones are refused."""
    assert read_tagged_gtid(TAGGED) == TaggedGtid(f"{SID}:my_tag:", 1, 0x0660D1A9D287F4)
    assert str(read_previous_gtids(PREVIOUS)) == f"{SID}:1-3:b:1:my_tag:1-2"
    for size in range(20):
        with pytest.raises(SourceLostError):
            read_tagged_gtid(TAGGED[:size])
    for size in range(8, len(PREVIOUS)):
        with pytest.raises(SourceLostError):
            read_previous_gtids(PREVIOUS[:size])


def test_tags_in_texts() -> None:
    """As MySQL reads and writes them: a tag applies to the intervals behind it and ignores case."""
    text = f"{SID}:1-3:b:1:my_tag:1-2"
    assert str(parse_gtid_set(text)) == text
    assert str(parse_gtid_set(f"{SID}:MY_TAG:2:B:1:my_tag:1, {SID}:1-3")) == text
    assert parse_gtid_set(f"{SID}:b:1") <= parse_gtid_set(text)
    assert not parse_gtid_set(f"{SID}:b:2") <= parse_gtid_set(text)


@given(members, members)
def test_a_set_knows_what_it_holds(a: Membership, b: Membership) -> None:
    """Subsets, and many transactions at a time."""
    assert (made(a) <= made(b)) == (a <= b)
    for sid in map(str, SERVERS):
        numbers = np.array([n for s, n in sorted(a | b) if s == sid], np.int64)
        assert made(a).holds(sid, numbers).tolist() == [(sid, n) in a for n in numbers.tolist()]


def test_positions_of_mariadb() -> None:
    """The last transaction of each domain; a later one replaces it."""
    assert str(parse_gtid_position("7-1-3,0-2-5")) == "0-2-5,7-1-3"
    assert joined(["0-1-5,1-2-7", "0-3-6", ""], mariadb=True) == "0-3-6,1-2-7"
    for text in ("0-1", "0-1-2-3", "a-1-2", "0-1-2,0-1-3", "0-1--2", "0:1"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_gtid_position(text)


def test_gtid_lists_are_read() -> None:
    """Written by MariaDB 10.11: the last entry of a domain is its newest."""
    body = bytes.fromhex(
        "030000000700000031390a000100000000000000000000006300000004000000000000000000000031390a000500000000000000"
    )
    found = read_gtid_list(body)
    assert found.entries == {(7, 670001): 1, (0, 99): 4, (0, 670001): 5}
    assert found.position == GtidPosition({7: (670001, 1), 0: (670001, 5)})
    assert read_gtid_list(bytes(6)).position == GtidPosition()
    with pytest.raises(SourceLostError):
        read_gtid_list(body[:-1])
