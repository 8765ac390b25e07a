"""The comparison of images: equal batches, and each kind of difference."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audit.audit_compare import AuditDifference, AuditImages, compared
from engine.audit.audit_values import UNSURE

Image = tuple[int, str, int, Any]
"""Position, kind, key, value."""
ROWS: list[Image] = [(10, "+I", 1, "a"), (10, "+I", 2, "b"), (20, "-U", 1, "a"), (20, "+U", 1, "c"), (30, "-D", 2, "b")]


def images(rows: list[Image]) -> AuditImages:
    """Images with two columns, of which the first is the key."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return AuditImages(columns[0], columns[1], columns[2:])


def kinds(theirs: list[Image], ours: list[Image], key: tuple[int, ...] = (0,)) -> list[tuple[str, int]]:
    """Kind and position of each difference."""
    return [(found.kind, found.order) for found in compared(images(theirs), images(ours), key)]


def test_equal_images_have_no_difference() -> None:
    """Also where there are none."""
    assert not kinds(ROWS, ROWS)
    assert not kinds([], [])


def test_a_value_that_is_not_known_equals_every_other() -> None:
    """On either side."""
    assert not kinds([(10, "+I", 1, UNSURE)], [(10, "+I", 1, "a")])
    assert not kinds([(10, "+I", 1, "a")], [(10, "+I", 1, UNSURE)])


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ([*ROWS[:1], *ROWS[2:]], ("missing", 10)),
        (ROWS[:-1], ("missing", 30)),
        ([*ROWS, (30, "-D", 2, "b")], ("extra", 30)),
        ([*ROWS, (40, "+I", 3, "b")], ("extra", 40)),
        ([(10, "+I", 1, "x"), *ROWS[1:]], ("different", 10)),
        ([(10, "+I", 7, "a"), *ROWS[1:]], ("different", 10)),
        ([*ROWS[:4], (30, "+I", 2, "b")], ("kind", 30)),
        ([ROWS[1], ROWS[0], *ROWS[2:]], ("order", 10)),
        ([*ROWS[:3], ROWS[4], ROWS[3]], ("order", 20)),
    ],
)
def test_one_fault_is_one_difference(ours: list[Image], expected: tuple[str, int]) -> None:
    """An image that is missing, there twice, damaged, of another kind, or late."""
    assert kinds(ROWS, ours) == [expected]


def test_a_table_without_a_key() -> None:
    """Equal images find each other by all their values."""
    assert kinds(ROWS, [ROWS[0], *ROWS[2:]], ()) == [("missing", 10)]
    assert kinds(ROWS, [(10, "+I", 1, "x"), *ROWS[1:]], ()) == [("different", 10)]


def test_the_columns_that_differ() -> None:
    """Their numbers, with both rows."""
    (found,) = compared(images([(10, "+I", 1, "a")]), images([(10, "+I", 1, "b")]), (0,))
    assert found == AuditDifference("different", 10, (1,), [1, "a"], [1, "b"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.text("ab", max_size=2)), max_size=30), st.data())
def test_a_missing_or_extra_image_is_always_found(rows: list[tuple[int, int, str]], data: st.DataObject) -> None:
    """Whatever the images: as many more or fewer as were taken out or put in."""
    theirs: list[Image] = [(order, "+I", key, value) for order, key, value in sorted(rows, key=lambda row: row[0])]
    kept = data.draw(st.lists(st.booleans(), min_size=len(theirs), max_size=len(theirs)))
    ours = [row for row, keep in zip(theirs, kept, strict=True) if keep]
    gone = len(theirs) - len(ours)
    assert [kind for kind, _ in kinds(theirs, ours)].count("missing") == gone
    assert [kind for kind, _ in kinds(ours, theirs)].count("extra") == gone
