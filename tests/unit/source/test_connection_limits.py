"""How many connections a run needs, and what the limits allow."""

from engine.source.connection_limits import judged


def test_a_limit_below_what_a_run_needs_fails() -> None:
    """With a remedy: another limit, or fewer readers if one is possible."""
    (found,) = judged(5, 100, "tidemark", 2)
    assert (found[1], found[2]) == ("fail", "6 or more (2 readers and 4)")
    assert found[-1] == (
        "ALTER USER 'tidemark' WITH MAX_USER_CONNECTIONS 6; Or set [spark] master = \"local[1]\": it is slower."
    )
    (found,) = judged(3, 100, "tidemark", 2)
    assert found[-1] == "ALTER USER 'tidemark' WITH MAX_USER_CONNECTIONS 6;"


def test_enough_connections_pass() -> None:
    """No limit, or one that is high enough; a full server is a warning, as others may leave it."""
    assert [found[1] for found in judged(0, 100, "u", 2)] == ["ok"]
    assert [found[1] for found in judged(6, 6, "u", 2)] == ["ok"]
    assert [found[1] for found in judged(6, 5, "u", 2)] == ["ok", "warn"]
