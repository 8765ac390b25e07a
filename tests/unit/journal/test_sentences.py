"""An event in a sentence."""

import pytest

from engine.journal.events import TableChanged
from engine.journal.sentences import describe


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            TableChanged(kind="evolved", table="d.t", position="b.000001:4", statement="ALTER TABLE t ADD w INT"),
            "Evolved at b.000001:4: ALTER TABLE t ADD w INT",
        ),
        (TableChanged(kind="resnapshotted", table="d.t", reason="requested"), "Resnapshotted: requested"),
    ],
)
def test_a_table_changes_at_a_statement_or_for_a_reason(event: TableChanged, expected: str) -> None:
    """A resnapshot on command is at no position."""
    assert describe(event) == expected
