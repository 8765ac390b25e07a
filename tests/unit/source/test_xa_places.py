"""What is known of XA transactions at a position, and after the next stretch of the log."""

from engine.source.positions import Position
from engine.source.xa_places import KnownPlaces, Prepared, XaPlaces

A, B, C = (b"a", b"", 1), (b"b", b"", 1), (b"c", b"", 1)


def at(offset: int) -> Position:
    """A position in the only file."""
    return Position("bin.000001", offset)


def place(offset: int) -> Prepared:
    """A transaction prepared there."""
    return Prepared(at(offset), at(offset + 10))


def test_places_of_consecutive_stretches_are_joined() -> None:
    """What was undecided and is decided is remembered as such; a later PREPARE of one id replaces an earlier one."""
    first = XaPlaces({A: place(10), B: place(20)}, {C: place(5)}, at(4), at(100))
    second = XaPlaces({C: place(110)}, {}, at(100), at(200))
    both = first.after(second, [A])
    assert both == XaPlaces({B: place(20), C: place(110)}, {A: place(10)})
    assert (both.since, both.at) == (at(4), at(200))


def test_nothing_is_known_from_before_a_gap() -> None:
    """An id may have been used again in it."""
    first = XaPlaces({A: place(10)}, {}, at(4), at(100))
    second = XaPlaces({B: place(160)}, {}, at(150), at(200))
    assert first.after(second, []) == second
    assert XaPlaces().after(second, []) == second
    assert second.after(XaPlaces(), []) == second


def test_the_nearest_known_places_are_those_before_a_position() -> None:
    """Else the first ones after it; none if nothing is known."""
    known = KnownPlaces(*(XaPlaces({A: place(n)}, {}, at(4), at(n)) for n in (100, 300, 200, *[200] * 20)), XaPlaces())
    assert [known.near(at(n)).at for n in (50, 100, 250, 1000)] == [at(100), at(100), at(200), at(300)]
    assert KnownPlaces().near(at(50)).at is None
