"""Reads that wait for a lock on the source, and the sessions that hold it. It asks; it takes no lock itself.

A plain SELECT waits for no row lock of InnoDB: readers set REPEATABLE READ (`source.watermarks`), and every other
session reads in autocommit. It does wait for the metadata lock of its table, while another session has `LOCK TABLES …
WRITE` or changes the table, and behind an `ALTER TABLE` that itself waits for an open transaction. A table of MyISAM
also has a table lock.

Every account sees its own sessions in the process list, so that a read is blocked is always known. Who blocks it is
known

    exactly     from performance_schema.metadata_locks (MySQL by default, with SELECT; MariaDB if it is switched on), or
                from MariaDB's plugin METADATA_LOCK_INFO, with PROCESS
    by guess    from the process list, with PROCESS: statements on that table, open transactions, idle sessions
    not at all  otherwise; then the grant that shows it is named
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.base.errors import PreflightError, TidemarkError
from engine.base.redaction import redact
from engine.source.connect import Connection, Server, describe, query
from engine.source.own_account import own_account

Role = Literal["holds", "waits", "may hold"]
"""waits: for the same lock, before the read."""
MOST_SESSIONS = 3
"""Of the sessions that block a table, as many are named."""
_MOST_TEXT = 200
_OWN = """
SELECT ID AS id, TIME AS seconds, STATE AS state, INFO AS statement FROM information_schema.PROCESSLIST
WHERE USER = SUBSTRING_INDEX(USER(), '@', 1) AND ID <> CONNECTION_ID()
AND STATE IN ('Waiting for table metadata lock', 'Waiting for table level lock', 'Waiting for table flush')"""
_LOCKS = """
SELECT w.OBJECT_SCHEMA AS d, w.OBJECT_NAME AS t, own.PROCESSLIST_ID AS waiting, other.PROCESSLIST_ID AS id,
other.PROCESSLIST_USER AS user, other.PROCESSLIST_HOST AS host, other.PROCESSLIST_COMMAND AS command,
other.PROCESSLIST_TIME AS seconds, COALESCE(other.PROCESSLIST_INFO, last.SQL_TEXT) AS statement,
h.LOCK_TYPE AS kind, h.LOCK_STATUS AS status
FROM performance_schema.metadata_locks AS w
JOIN performance_schema.threads AS own ON own.THREAD_ID = w.OWNER_THREAD_ID
JOIN performance_schema.metadata_locks AS h ON h.OBJECT_TYPE = w.OBJECT_TYPE AND h.OBJECT_SCHEMA = w.OBJECT_SCHEMA
AND h.OBJECT_NAME = w.OBJECT_NAME AND h.OWNER_THREAD_ID <> w.OWNER_THREAD_ID
JOIN performance_schema.threads AS other ON other.THREAD_ID = h.OWNER_THREAD_ID
LEFT JOIN performance_schema.events_statements_current AS last
ON last.THREAD_ID = h.OWNER_THREAD_ID AND last.NESTING_EVENT_LEVEL = 0
WHERE w.LOCK_STATUS = 'PENDING' AND w.OBJECT_TYPE = 'TABLE' AND own.PROCESSLIST_ID IN ({ids})
AND other.PROCESSLIST_ID IS NOT NULL"""
"""The server's own threads, such as InnoDB's purge, are no sessions: they have no number, and nobody can end them."""
_PLUGIN = """
SELECT l.TABLE_SCHEMA AS d, l.TABLE_NAME AS t, NULL AS waiting, p.ID AS id, p.USER AS user, p.HOST AS host, \
p.COMMAND AS command,
p.TIME AS seconds, p.INFO AS statement, REPLACE(l.LOCK_MODE, 'MDL_', '') AS kind, 'GRANTED' AS status
FROM information_schema.METADATA_LOCK_INFO AS l JOIN information_schema.PROCESSLIST AS p ON p.ID = l.THREAD_ID
WHERE l.LOCK_TYPE = 'Table metadata lock' AND p.ID <> CONNECTION_ID()"""
_SESSIONS = """
SELECT p.ID AS id, p.USER AS user, p.HOST AS host, p.COMMAND AS command, p.TIME AS seconds, p.INFO AS statement,
'' AS kind, MAX(t.trx_id IS NOT NULL) AS open
FROM information_schema.PROCESSLIST AS p LEFT JOIN information_schema.INNODB_TRX AS t ON t.trx_mysql_thread_id = p.ID
WHERE p.COMMAND IN ('Query', 'Prepare', 'Execute', 'Sleep') AND p.ID <> CONNECTION_ID() AND p.USER <> 'event_scheduler'
GROUP BY p.ID, p.USER, p.HOST, p.COMMAND, p.TIME, p.INFO"""
"""PROCESSLIST silently omits the sessions of others without PROCESS; INNODB_TRX refuses."""
_EXCLUSIVE = ("EXCLUSIVE", "SHARED_NO_READ_WRITE")
"""The locks that no reader of a table gets past."""
_TABLE = re.compile(r"(?:FROM|TABLE)\s+`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
_LITERAL = re.compile(
    r"(`[^`]*`)|(/\*.*?(?:\*/|$)|--\s[^\n]*|#[^\n]*)"
    r"|'(?:[^'\\]|\\.|'')*(?:'|$)|\"(?:[^\"\\]|\\.|\"\")*(?:\"|$)|\b(?:0x[0-9a-f]+|\d[\d.]*)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A name (1), a comment (2), or a value."""


@dataclass(frozen=True)
class BlockingSession:
    """A session that blocks a read, or may do so."""

    connection: int
    user: str
    host: str
    role: Role
    lock: str
    """The kind of lock, as performance_schema names it; empty if unknown."""
    seconds: int
    """For how long it has executed its statement, or been idle."""
    idle: bool
    statement: str
    """The running or the last statement, without literals; empty if unknown."""


@dataclass(frozen=True)
class BlockedRead:
    """The reads of one table that wait for a lock."""

    table: str | None
    """None if the server does not say which."""
    lock: str
    """table metadata lock, table level lock or table flush."""
    seconds: int
    """How long the first of them has waited."""
    reads: int
    sessions: tuple[BlockingSession, ...] = ()
    unseen: str = ""
    """Why the session that holds the lock is not known."""
    hint: str = ""
    """What to do, or which grant shows who holds the lock."""


def blocked_reads(connection: Connection) -> list[BlockedRead]:
    """The blocked reads of this account, by table: one statement if there are none.

    Raises TransientError if nobody answers.
    """
    own = query(connection, _OWN)
    if not own:
        return []
    server = describe(connection)
    locks = _locks(connection, server, [int(row["id"]) for row in own])
    names = {int(row["waiting"]): f"{row['d']}.{row['t']}" for row in locks if row["waiting"] is not None}
    tables: dict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for row in own:
        tables[names.get(int(row["id"])) or table_in(row["statement"] or "")].append(row)
    waiting = {int(row["id"]) for row in own}
    return [_blocked(connection, server, table, rows, locks, waiting) for table, rows in tables.items()]


def _blocked(
    connection: Connection,
    server: Server,
    table: str | None,
    rows: Sequence[Mapping[str, Any]],
    locks: Iterable[Mapping[str, Any]],
    waiting: set[int],
) -> BlockedRead:
    state = str(rows[0]["state"]).removeprefix("Waiting for ")
    seconds = max(int(row["seconds"]) for row in rows)
    of_table = [row for row in locks if f"{row['d']}.{row['t']}" == table and int(row["id"]) not in waiting]
    if sessions := blockers(of_table):
        return BlockedRead(table, state, seconds, len(rows), sessions, hint=_end_hint(sessions))
    try:
        others = [row for row in query(connection, _SESSIONS) if int(row["id"]) not in waiting]
    except PreflightError:
        unseen = "The account does not see the sessions of others"
        hint = f"{_END} {_grant_hint(connection, server)}"
        return BlockedRead(table, state, seconds, len(rows), unseen=unseen, hint=hint)
    sessions = candidates(others, table, connection.user)
    unseen = "The server does not say who holds the lock" + (": one of these may" if sessions else "")
    hint = f"{_END} {_exact_hint(connection, server)}"
    return BlockedRead(table, state, seconds, len(rows), sessions, unseen, hint)


def _locks(connection: Connection, server: Server, waiting: Sequence[int]) -> list[dict[str, Any]]:
    """The metadata locks on the tables for which these connections wait; none if the account may not see them."""
    try:
        locks = query(connection, _LOCKS.format(ids=", ".join(map(str, waiting))))
        if not locks and server.flavor == "mariadb":
            locks = query(connection, _PLUGIN)
    except TidemarkError as error:
        if isinstance(error, PreflightError) or "(error 1109)" in error.message:  # no grant; no such plugin
            return []
        raise
    return locks


def blockers(locks: Iterable[Mapping[str, Any]]) -> tuple[BlockingSession, ...]:
    """The sessions that block a reader, from all locks on its table; pure.

    Exclusive locks that are granted; or, if the reader only waits behind one that is pending, every session that holds
    the table.
    """
    once = list({(row["id"], row["kind"], row["status"]): row for row in locks}.values())
    granted = [row for row in once if row["status"] == "GRANTED"]
    holders = [_session(row, "holds") for row in granted if row["kind"] in _EXCLUSIVE]
    if holders:
        return tuple(holders[:MOST_SESSIONS])
    queued = [_session(row, "waits") for row in once if row["status"] != "GRANTED" and row["kind"] in _EXCLUSIVE]
    ids = {one.connection for one in queued}
    open_ = [_session(row, "holds") for row in granted if int(row["id"]) not in ids] if queued else []
    return tuple([*open_, *queued][:MOST_SESSIONS])


def candidates(
    sessions: Iterable[Mapping[str, Any]], table: str | None, own: str | bytes
) -> tuple[BlockingSession, ...]:
    """The sessions that may hold a lock, the likeliest first; pure.

    own: this account's user, whose idle sessions hold none.

    Statements that name the table; then open transactions; then the sessions that have been idle for the shortest time.
    """
    name = (table or "").rpartition(".")[2].casefold()

    def rank(row: Mapping[str, Any]) -> tuple[bool, bool, int]:
        names = bool(name) and name in str(row["statement"] or "").casefold()
        return not names, not row["open"], int(row["seconds"])

    user = own.decode() if isinstance(own, bytes) else own
    likely = [
        row
        for row in sessions
        if row["user"] != user and (row["command"] == "Sleep" or row["open"] or not rank(row)[0])
    ]
    return tuple(_session(row, "may hold") for row in sorted(likely, key=rank)[:MOST_SESSIONS])


def table_in(statement: str) -> str | None:
    """The first table that one of our own statements names, as database.table; None if it names none."""
    match = _TABLE.search(statement)
    return ".".join(name.replace("``", "`") for name in match.groups()) if match else None


def without_literals(statement: str) -> str:
    """A statement of another program for people: without its values, which may be those of rows, and shortened."""
    text = redact(statement)
    # Whether a backslash escapes a quote depends on the session's sql_mode. So nothing from the first quote on is
    # shown.
    if "\\" in text:
        text = re.split("['\"]", text, maxsplit=1)[0] + " …"
    text = " ".join(_LITERAL.sub(lambda match: match[1] or (" " if match[2] else "?"), text).split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _session(row: Mapping[str, Any], role: Role) -> BlockingSession:
    return BlockingSession(
        connection=int(row["id"]),
        user=str(row["user"] or ""),
        host=str(row["host"] or "").rpartition(":")[0] or str(row["host"] or ""),
        role=role,
        lock=str(row["kind"] or ""),
        seconds=int(row["seconds"] or 0),
        idle=row["command"] == "Sleep",
        statement=without_literals(str(row["statement"] or "")),
    )


_END = "Finish or end the session that holds the lock."


def _end_hint(sessions: Sequence[BlockingSession]) -> str:
    one = sessions[0].connection
    return f"Finish what connection {one} does on the source, or end it there: KILL {one};"


def _grant_hint(connection: Connection, server: Server) -> str:
    account = own_account(connection)
    if server.flavor == "mysql":
        return f"To see who holds it, run on the source: GRANT SELECT ON performance_schema.* TO {account};"
    return f"To see which sessions may hold it, run on the source: GRANT PROCESS ON *.* TO {account};"


def _exact_hint(connection: Connection, server: Server) -> str:
    if server.flavor == "mysql":
        return _grant_hint(connection, server)
    return "To see which one does, run on the source: INSTALL SONAME 'metadata_lock_info';"
