"""When failovers end a run."""

from engine.run.source_loss.failover import in_a_row


def test_only_failovers_without_a_commit_in_between_add_up() -> None:
    """A run of years may fail over any number of times."""
    assert in_a_row(0, 5, 5) == 1
    assert in_a_row(1, 6, 6) == 2
    assert in_a_row(10, 7, 8) == 1
