"""How many connections a run needs, and what the limits allow."""

from engine.source.connection_limits import Limits, few, limit_findings, tasks_at_once


def test_a_limit_below_what_a_run_usually_has_makes_it_slower() -> None:
    """With the number of readers, and the statement that changes the limit of this very account."""
    (found,) = limit_findings(Limits(5, 100, "tide@mark@10.%"), 2)
    assert (found[1], found[2]) == ("warn", "6 or more (2 readers and 4)")
    assert found[3] == "max_user_connections = 5: 1 reader at once, slower than with all"
    assert found[-1] == "ALTER USER 'tide@mark'@'10.%' WITH MAX_USER_CONNECTIONS 6;"
    assert [few(own, 4) for own in (0, 3, 7, 8)] == [None, 3, 7, None]
    assert [tasks_at_once(own) for own in (2, 3, 5, 6, 10)] == [1, 1, 1, 2, 3]


def test_a_limit_below_the_connections_of_one_task_fails() -> None:
    """Nothing could be read."""
    (found,) = limit_findings(Limits(2, 100, "u@%"), 1)
    assert (found[1], found[3]) == ("fail", "max_user_connections = 2; 3 are the least")


def test_enough_connections_pass() -> None:
    """No limit, or one that is high enough; a full server is a warning, as others may leave it."""
    assert [found[1] for found in limit_findings(Limits(0, 100, "u@%"), 2)] == ["ok"]
    assert [found[1] for found in limit_findings(Limits(6, 6, "u@%"), 2)] == ["ok"]
    assert [found[1] for found in limit_findings(Limits(6, 5, "u@%"), 2)] == ["ok", "warn"]
