"""What a repair proves."""

import pytest

from engine.verify.repair import unproven
from engine.verify.verdicts import TableResult, VerdictText


@pytest.mark.parametrize(
    ("before", "after", "proved"),
    [
        ("diverged", "verified", True),
        ("diverged", "lagging", False),
        ("diverged", "diverged", False),
        ("diverged", "unverifiable", False),
        ("lagging", "lagging", True),
    ],
)
def test_a_repair_is_proved_by_a_verification(before: VerdictText, after: VerdictText, *, proved: bool) -> None:
    """A table that lags afterwards may still differ. One that never differed needs no repair."""
    result = TableResult("a.b", after)
    assert unproven([TableResult("a.b", before)], [result]) == ([] if proved else [result])
