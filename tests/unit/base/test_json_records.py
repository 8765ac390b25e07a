"""Dataclasses from JSON objects."""

from dataclasses import dataclass

from engine.base.json_records import record_from, records_from


@dataclass(frozen=True)
class Point:
    """A record with a default."""

    x: int
    y: int = 0


def test_keys_of_later_versions_are_left_out() -> None:
    """And fields that an earlier version did not write get their defaults."""
    assert record_from(Point, {"x": 1, "y": 2, "z": 3}) == Point(1, 2)
    assert record_from(Point, {"x": 1}) == Point(1)


def test_what_is_no_such_record_is_none() -> None:
    """A field without a default is missing, or it is no object; in a list, it is left out."""
    assert record_from(Point, {"y": 2}) is None
    assert record_from(Point, "x") is None
    assert records_from(Point, [{"x": 1}, {"y": 2}, None, 7]) == (Point(1),)
    assert records_from(Point, None) == ()
