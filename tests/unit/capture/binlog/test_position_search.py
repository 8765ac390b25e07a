"""Which transactions of another server's binlog are already captured, compared with the plain definition."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.capture.binlog.position_search import BehindPosition, NoPlaceError, NotInSet, begins_in
from engine.decode.gtid import GtidPosition, gtid_set_of
from engine.decode.gtid_events import GtidList
from engine.source.heads import Head

RUN = cast(Any, SimpleNamespace(file="b.000002"))
Transaction = tuple[int, int, int]
"""Domain, server, number."""


def facts_of(transactions: list[Transaction]) -> tuple[list[str], np.ndarray]:
    """The facts in the form of `Transactions`."""
    sources = ["", *sorted({f"{d}-{s}-" for d, s, _ in transactions})]
    return sources, np.array([[0, sources.index(f"{d}-{s}-"), n] for d, s, n in transactions], np.int64).reshape(-1, 3)


def list_of(transactions: list[Transaction]) -> GtidList:
    """The GTID_LIST of a file that follows these transactions."""
    position = GtidPosition({d: (s, n) for d, s, n in transactions})
    return GtidList({(d, s): n for d, s, n in transactions}, position)


@st.composite
def histories(draw: st.DrawFn) -> list[Transaction]:
    """Transactions of three domains and three servers; numbers ascend within a domain, as on a real server."""
    last = [0, 0, 0]
    out = []
    for domain, server, step in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 2)), max_size=12)
    ):
        last[domain] += step
        out.append((domain, server, last[domain]))
    return out


@given(histories(), st.data())
def test_what_lies_behind_a_position_is_found(history: list[Transaction], data: st.DataObject) -> None:
    """From any file with a known start, read in blocks of any size: exactly the new transactions are found."""
    place = data.draw(st.integers(0, len(history)))
    head = data.draw(st.integers(0, place))
    ours = GtidPosition({d: (s, n) for d, s, n in history[:place]})
    before = list_of(history[:head])
    assert begins_in(Head("b.000002", 0, before), ours)
    behind = BehindPosition(ours, before)
    sources, facts = facts_of(history)
    cut = data.draw(st.integers(head, len(history)))
    found: list[bool] = []
    for a, b in ((head, cut), (cut, len(history))):
        found += behind.choose(RUN, np.arange(b - a), facts[a:b], sources).tolist()
    assert found == [False] * (place - head) + [True] * (len(history) - place)
    assert not behind.missing_position


@given(histories(), st.data())
def test_a_file_that_begins_too_late_is_not_taken(history: list[Transaction], data: st.DataObject) -> None:
    """It would skip new transactions."""
    place = data.draw(st.integers(0, len(history)))
    head = data.draw(st.integers(place, len(history)))
    assume(head > place)
    ours = GtidPosition({d: (s, n) for d, s, n in history[:place]})
    assert not begins_in(Head("b.000002", 0, list_of(history[:head])), ours)


def test_a_last_transaction_that_is_not_there_is_missing() -> None:
    """Then nothing of the domain is new, and the position is refused."""
    behind = BehindPosition(GtidPosition({0: (1, 5)}), list_of([]))
    sources, facts = facts_of([(0, 1, 4), (0, 2, 5), (0, 2, 6)])
    assert not behind.choose(RUN, np.arange(3), facts, sources).any()
    assert behind.missing_position == [0]


def test_numbers_that_do_not_ascend_prove_nothing() -> None:
    """Two servers wrote to one domain."""
    behind = BehindPosition(GtidPosition({0: (1, 5)}), list_of([]))
    sources, facts = facts_of([(0, 1, 4), (0, 2, 4)])
    with pytest.raises(NoPlaceError, match="diverged"):
        behind.choose(RUN, np.arange(2), facts, sources)


@given(
    st.sets(st.tuples(st.integers(1, 2), st.integers(1, 9))), st.lists(st.tuples(st.integers(1, 2), st.integers(1, 9)))
)
def test_what_is_not_in_a_set_is_found(ours: set[tuple[int, int]], log: list[tuple[int, int]]) -> None:
    """For MySQL's sets. A transaction without a GTID proves nothing."""
    sources = ["", "00000000-0000-0000-0000-000000000001:", "00000000-0000-0000-0000-000000000002:tag:"]
    held = np.array(sorted(ours), np.int64).reshape(-1, 2)
    wanted = NotInSet(gtid_set_of(sources, held[:, 0], held[:, 1]))
    facts = np.array([[0, s, n] for s, n in log], np.int64).reshape(-1, 3)
    assert wanted.choose(RUN, np.arange(len(log)), facts, sources).tolist() == [pair not in ours for pair in log]
    with pytest.raises(NoPlaceError, match="no GTIDs"):
        wanted.choose(RUN, np.arange(1), np.zeros((1, 3), np.int64), sources)
