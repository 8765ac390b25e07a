"""A random part of an audit's ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audit.audit_range import AuditedRange
from engine.audit.audit_sample import sampled
from engine.decode.schema import Table
from engine.source.positions import Position, bytes_between

FILES = {"b.000001": 1000, "b.000002": 500, "b.000003": 2000}
STEP = 50
"""A transaction of the tests."""


def at(text: str) -> Position:
    """A position; only the file's last digit."""
    file, _, offset = text.partition(":")
    return Position(f"b.00000{file}", int(offset))


def audited_range(name: str, start: str, end: str) -> AuditedRange:
    """What would be audited of a table."""
    return AuditedRange(Table("d", name, (), ()), (), at(start), at(end))


def next_between(position: Position) -> Position:
    """Transactions end at every multiple of `STEP`, and at the end of a file."""
    if position.offset <= 4:
        return position
    return Position(position.file, min(-(-position.offset // STEP) * STEP, FILES[position.file]))


def texts(found: list[AuditedRange]) -> list[tuple[str, str]]:
    """Start and end of each."""
    return [(str(part.start)[-6:].lstrip("0"), str(part.end)[-6:].lstrip("0")) for part in found]


def test_a_short_range_is_audited_as_a_whole() -> None:
    """So is one of just the wanted size; nothing is chosen where nothing is audited."""
    for parts in ([audited_range("a", "1:100", "1:400")], [audited_range("a", "1:400", "1:400")], []):
        assert sampled(parts, FILES, next_between, 300, lambda _: pytest.fail("nothing to choose")) == parts


def test_a_part_is_the_same_for_all_tables() -> None:
    """It lies between two transactions. A table elsewhere has an empty range."""
    parts = [
        audited_range("a", "1:100", "3:900"),
        audited_range("b", "2:4", "3:900"),
        audited_range("late", "3:4", "3:900"),
    ]
    first, second, late = sampled(parts, FILES, next_between, 400, lambda _: 710)
    assert (first.start, first.end) == (at("1:850"), at("2:250"))
    assert (second.start, second.end) == (at("2:4"), at("2:250"))
    assert late.start.order >= late.end.order
    assert all("--sample" in note for part in (first, second, late) for note in part.notes[-1:])


@given(st.floats(0, 1), st.integers(1, 3500))
def test_a_part_is_bounded_and_inside(share: float, most: int) -> None:
    """Whatever is chosen: it is at most a transaction longer than wanted, and never outside."""
    whole = audited_range("a", "1:100", "3:900")
    (part,) = sampled([whole], FILES, next_between, most, lambda count: round(share * (count - 1)))
    assert whole.start.order <= part.start.order <= part.end.order <= whole.end.order
    size = bytes_between(FILES, part.start, part.end)
    assert size <= most + STEP + 4
    assert size >= min(most, 2296) - STEP - 4
