"""Where an audit may begin, from the events of a journal."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from engine.audit.audit_range import (
    BORDER_BYTES,
    AuditedRange,
    CommittedHistory,
    Since,
    StreamEvent,
    TransactionBounds,
    audited_range,
    bound_before,
    check_available,
    parsed,
    streaming_since,
)
from engine.base.errors import SpecError
from engine.decode.schema import Column, Table
from engine.ledger.state import State, TableState
from engine.plan.chunks import WHOLE
from engine.plan.coverage import Coverage
from engine.source.positions import Position
from engine.spec.settings import Spec


def epoch(begin: int, end: int) -> StreamEvent:
    """A committed epoch."""
    return StreamEvent(
        "epoch.committed", from_position=f"b.000001:{begin}", to_position=f"b.000001:{end}", next_seq=10 * end
    )


def state(name: str, table: str = "d.t") -> StreamEvent:
    """A change of the table's state."""
    return StreamEvent("table.state", table, name)


def altered(at: int | None) -> StreamEvent:
    """A statement altered the table."""
    return StreamEvent("source.event", "d.t", position=None if at is None else f"b.000001:{at}")


def failover(at: int, to: int) -> StreamEvent:
    """Another server took over."""
    return StreamEvent("source.failover", from_position=f"b.000001:{at}", to_position=f"b.000001:{to}")


@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([epoch(1, 2), state("streaming")], None),
        ([epoch(1, 2), state("streaming"), epoch(2, 3), epoch(3, 4)], 2),
        ([state("streaming"), epoch(2, 3), state("streaming"), epoch(3, 4)], 2),
        ([state("streaming"), epoch(2, 3), state("copying"), epoch(3, 4)], None),
        ([state("streaming"), epoch(2, 3), state("stopped"), epoch(3, 4), state("streaming"), epoch(4, 6)], 4),
        ([state("streaming"), epoch(2, 3), altered(5), epoch(3, 5), epoch(5, 9)], 5),
        ([state("streaming"), epoch(2, 3), altered(3), epoch(3, 5)], 3),
        ([state("streaming"), epoch(2, 3), altered(None), epoch(3, 5)], 5),
        ([state("streaming"), epoch(2, 3), failover(3, 1), epoch(1, 5)], 1),
        ([state("streaming"), epoch(2, 3), failover(4, 1), epoch(1, 5), epoch(5, 7)], 5),
        ([state("streaming"), epoch(2, 3), epoch(4, 5), epoch(5, 7)], 5),
        ([epoch(1, 2), epoch(2, 3)], None),
    ],
)
def test_since_when_a_table_streams(events: list[StreamEvent], since: int | None) -> None:
    """From the first epoch after it began to, or was altered, or came from another server.

    Lines of the journal may be lost.
    """
    found = streaming_since(events)
    assert {name: place.position for name, place in found.items()} == (
        {} if since is None else {"d.t": Position("b.000001", since)}
    )


def test_the_first_change_after_a_place() -> None:
    """Earlier changes may be those of another server; an older journal does not say."""
    events = [epoch(7, 8), state("streaming"), failover(8, 1), epoch(1, 5)]
    assert streaming_since(events) == {"d.t": Since(Position("b.000001", 1), 80)}
    assert streaming_since([state("streaming"), epoch(2, 3)]) == {"d.t": Since(Position("b.000001", 2), 0)}
    events[0] = replace(events[0], next_seq=0)
    assert streaming_since(events) == {"d.t": Since(Position("b.000001", 1), 0)}


def test_borders_between_transactions() -> None:
    """Epochs end at them.

    About one per MiB is kept, and none from before a failover or a reset, or before lost lines.
    """
    borders = TransactionBounds()
    ends = [5, 6, BORDER_BYTES + 5, BORDER_BYTES + 6]
    events = [epoch(begin, end) for begin, end in pairwise([1, *ends])]
    assert list(borders.passing(events)) == events
    assert [position.offset for position in borders.positions] == [5, BORDER_BYTES + 5]
    at = [
        bound_before(borders.positions, Position("b.000001", offset))
        for offset in (4, 5, BORDER_BYTES, 2 * BORDER_BYTES)
    ]
    assert [found and found.offset for found in at] == [None, 5, 5, BORDER_BYTES + 5]
    list(borders.passing([failover(ends[-1], 8), epoch(8, 9), epoch(9, 10)]))
    assert [position.offset for position in borders.positions] == [9]
    list(borders.passing([epoch(11, 12)]))
    assert [position.offset for position in borders.positions] == [12]


def test_a_long_journal_costs_little() -> None:
    """Here a TiB of binlog, and 5,000 tables."""
    borders = TransactionBounds()
    began_s = time.process_time()
    for _ in borders.passing(epoch(n << 20, (n + 1) << 20) for n in range(300_000)):
        pass
    assert 50_000 <= len(borders.positions) <= 100_000
    assert borders.positions[-1].offset >= 299_990 << 20
    events = [state("streaming", f"d.t{n}") for n in range(5_000)]
    assert len(streaming_since([*events, *(epoch(n, n + 1) for n in range(100_000))])) == 5_000
    assert time.process_time() - began_s < 6


def test_positions_of_the_command_line() -> None:
    """FILE:OFFSET; anything else is refused."""
    assert parsed("mysql-bin.000003:4", "--from") == Position("mysql-bin.000003", 4)
    for text in ("mysql-bin.000003", "mysql-bin:4", "4", "mysql-bin.000003:x"):
        with pytest.raises(SpecError, match="--from"):
            parsed(text, "--from")


def test_purged_positions() -> None:
    """Before the oldest file of the server, or in none of them."""
    files = ["b.000003", "b.000004"]
    assert not check_available(Position("b.000003", 4), files)
    assert not check_available(None, files)
    assert "purged" in check_available(Position("b.000002", 4), files)
    assert "no such file" in check_available(Position("b.000005", 4), files)


def test_a_range_never_ends_before_it_begins(tmp_path: Path) -> None:
    """A table was added again after what is committed, or --to is earlier than what can be compared."""
    table = Table("d", "t", (Column("id", "int", nullable=False),), ("id",))
    spec = Spec.model_validate(
        {
            "name": "x",
            "source": {"host": "h", "user": "u", "tables": ["d.*"]},
            "sink": {"path": str(tmp_path / "lake")},
        }
    )
    copied = TableState(table.as_dict(), {}, Coverage(runs=(WHOLE,)))
    state = State(0, "l", "s", Position("b.000001", 400), 0, {"d.t": copied})
    history = CommittedHistory(state, ())
    outcome = audited_range(spec, history, "d.t", {"b.000001": 900}, (None, Position("b.000001", 100)))
    assert isinstance(outcome, AuditedRange), outcome
    assert outcome.start == outcome.end == Position("b.000001", 400)
