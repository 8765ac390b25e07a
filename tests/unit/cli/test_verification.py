"""The exit code of `verify`."""

import pytest

from engine.cli.verification import _exit_code
from engine.pipeline.table_verdict import NEVER_COMPARED, NO_KEY
from engine.verify.verdicts import TableResult

RIGHT = TableResult("d.right", "verified")
WRONG = TableResult("d.wrong", "diverged", differences_total=1)
UNREADABLE = TableResult("d.unreadable", "unverifiable", "its mirror cannot be read: No such file")
STOPPED = TableResult("d.stopped", "unverifiable", "it has stopped: it was dropped")
BEHIND = TableResult("d.behind", "lagging", "its snapshot is not complete")


@pytest.mark.parametrize("other", [UNREADABLE, STOPPED, BEHIND])
def test_what_could_not_be_compared_is_no_success(other: TableResult) -> None:
    """If it is asked for. Rows that differ matter more."""
    assert _exit_code([RIGHT, other], [RIGHT, other], strict=True) == 8
    assert _exit_code([RIGHT, other], [RIGHT, other], strict=False) == 0
    for strict in (False, True):
        assert _exit_code([RIGHT, other, WRONG], [RIGHT, other, WRONG], strict=strict) == 6
        assert _exit_code([RIGHT], [RIGHT], strict=strict) == 0


@pytest.mark.parametrize("why", NEVER_COMPARED)
def test_a_table_that_never_has_a_mirror_counts_only_alone(why: str) -> None:
    """A pipeline with one table without a key can be verified."""
    without = TableResult("d.without", "unverifiable", why)
    assert _exit_code([RIGHT, without], [RIGHT, without], strict=True) == 0
    assert _exit_code([without], [without], strict=True) == 8
    assert _exit_code([without, UNREADABLE], [without, UNREADABLE], strict=True) == 8


def test_a_repair_that_is_not_verified_is_no_success() -> None:
    """The rows that differed may differ still."""
    right = [TableResult("d.wrong", "verified")]
    assert _exit_code([WRONG], [TableResult("d.wrong", "lagging")], strict=False) == 6
    assert _exit_code([WRONG], right, strict=True) == 0
    assert _exit_code([WRONG, TableResult("d.t", "unverifiable", NO_KEY)], right, strict=True) == 0
