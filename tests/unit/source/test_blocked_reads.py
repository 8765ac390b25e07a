"""Who blocks a read: from the locks on its table, or from the process list; and what is shown of a statement."""

from typing import Any

import pytest

from engine.source.blocked_reads import blockers, candidates, table_in, without_literals


def lock(connection: int, kind: str, status: str = "GRANTED") -> dict[str, Any]:
    """A row of the metadata locks."""
    one = {"id": connection, "kind": kind, "status": status, "user": "app", "host": "10.0.0.7:4711"}
    return {**one, "command": "Sleep", "seconds": 3, "statement": None}


def session(connection: int, command: str, seconds: int, statement: str = "", **more: Any) -> dict[str, Any]:
    """A row of the process list."""
    one = {"id": connection, "command": command, "seconds": seconds, "statement": statement or None, "kind": ""}
    return {**one, "user": "app", "host": "10.0.0.7:4711", "open": 0, **more}


def test_the_holder_of_an_exclusive_lock_blocks_and_readers_do_not() -> None:
    """Once, however many locks on the table it has; sessions that wait too are not named."""
    locks = [lock(1, "SHARED_READ"), lock(2, "SHARED_NO_READ_WRITE"), lock(2, "SHARED_NO_READ_WRITE")]
    found = blockers([*locks, lock(3, "EXCLUSIVE", "PENDING")])
    assert [(one.connection, one.role, one.host, one.idle) for one in found] == [(2, "holds", "10.0.0.7", True)]


def test_behind_a_waiting_alter_the_open_transaction_comes_first() -> None:
    """It is what the ALTER waits for. Locks that the ALTER itself was granted do not count."""
    locks = [lock(3, "EXCLUSIVE", "PENDING"), lock(3, "SHARED_UPGRADABLE"), lock(1, "SHARED_WRITE")]
    assert [(one.connection, one.role) for one in blockers(locks)] == [(1, "holds"), (3, "waits")]
    assert blockers([lock(1, "SHARED_READ")]) == ()


def test_the_likeliest_session_comes_first() -> None:
    """A statement on the table, an open transaction, then idle sessions. Our own idle sessions hold no lock."""
    others = [
        session(1, "Sleep", 500),
        session(2, "Sleep", 5),
        session(3, "Query", 9, "SELECT 1 FROM other"),
        session(4, "Sleep", 90, open=1),
        session(5, "Query", 7, "ALTER TABLE Orders ADD x INT"),
        session(6, "Sleep", 1, user="tidemark"),
    ]
    found = candidates(others, "shop.orders", b"tidemark")
    assert [(one.connection, one.role) for one in found] == [(5, "may hold"), (4, "may hold"), (2, "may hold")]


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("UPDATE t SET a = 'it''s', b=\"x\" WHERE id = 12.5", "UPDATE t SET a = ?, b=? WHERE id = ?"),
        ("UPDATE t SET p='C:\\', card='secret'", "UPDATE t SET p= …"),  # NO_BACKSLASH_ESCAPES
        ("/* don't */ UPDATE t SET card='secret' -- it's", "UPDATE t SET card=?"),
        ("UPDATE t SET a='x -- y',\n b='secret'", "UPDATE t SET a=?, b=?"),
        ("SELECT `a'1`, t1.c2 FROM t1 WHERE h = 0xBEEF", "SELECT `a'1`, t1.c2 FROM t1 WHERE h = ?"),
        ("SELECT *\n  FROM t WHERE a = 'not closed", "SELECT * FROM t WHERE a = ?"),
        ("LOCK TABLES t WRITE", "LOCK TABLES t WRITE"),
        ("x" * 300, "x" * 200 + "…"),
    ],
)
def test_a_statement_of_another_program_is_shown_without_values(statement: str, shown: str) -> None:
    """They may be those of rows."""
    assert without_literals(statement) == shown


def test_the_table_of_our_own_statement_is_found_in_it() -> None:
    """Names are quoted, and may contain quotes."""
    assert table_in("SELECT `id` FROM `shop`.`or``ders` FORCE INDEX (PRIMARY)") == "shop.or`ders"
    assert table_in("SHOW CREATE TABLE `shop`.`orders`") == "shop.orders"
    assert table_in("SHOW BINARY LOGS") is None
