"""How many connections the server lets the user open, and how many readers a run then has.

Usually a run needs one per reader for chunks and the binlog, and four more: for epochs, for the end of the binlog, to
see whether the server answers, and for looks at the catalog and the load. Measured on both servers: 6 with two readers,
8 with four. If the account allows fewer, connections are opened for each task and closed after it, in turns
(`source.turns`): a task needs up to three.
"""

from dataclasses import dataclass

from engine.base.wording import plural
from engine.source.connect import Connection, query
from engine.source.named_tables import Finding
from engine.source.own_account import quoted_account

SHARED = 4
"""Connections besides those of the readers."""
LEAST = 3
"""With fewer connections, no task can be done."""
_LIMITS = "SELECT @@session.max_user_connections AS own, @@global.max_connections AS total, CURRENT_USER() AS account"
_CONNECTED = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
_WHY = "With fewer, readers wait for each other: connections are opened for each task and closed after it."


@dataclass(frozen=True)
class Limits:
    """own: connections that the account may have, 0 for any number.

    free: those that nobody uses now. account: `user@host`.
    """

    own: int
    free: int
    account: str


def limits_of(connection: Connection) -> Limits:
    """The limits of the connection's user and server."""
    (limits,) = query(connection, _LIMITS)
    (connected,) = query(connection, _CONNECTED)
    return Limits(int(limits["own"]), int(limits["total"]) - int(connected["Value"]), limits["account"])


def few(own: int, readers: int) -> int | None:
    """The connections that a run with so many readers has to make do with; None if it has enough."""
    return own if 0 < own < readers + SHARED else None


def tasks_at_once(connections: int) -> int:
    """How many tasks run at once with few connections."""
    return max(1, connections // LEAST)


def limit_findings(limits: Limits, readers: int) -> list[Finding]:
    """The findings for these limits. readers: how many run at the same time. Pure."""
    needed = readers + SHARED
    expected = f"{needed} or more ({readers} readers and {SHARED})"
    name, own = "connections of the user", limits.own
    fix = f"ALTER USER {quoted_account(limits.account)} WITH MAX_USER_CONNECTIONS {needed};"
    if few(own, readers) is None:
        findings: list[Finding] = [(name, "ok", expected, str(own) if own else "no limit", _WHY, "")]
    elif own < LEAST:
        findings = [(name, "fail", expected, f"max_user_connections = {own}; {LEAST} are the least", _WHY, fix)]
    else:
        findings = [(name, "warn", expected, limited_text(own), _WHY, fix)]
    if limits.free < needed:
        fix = "Raise max_connections, or end connections that are not needed."
        findings.append(("connections of the server", "warn", expected, f"{max(limits.free, 0)} free now", _WHY, fix))
    return findings


def limited_text(own: int) -> str:
    """What a limit means for a run."""
    return f"max_user_connections = {own}: {plural(tasks_at_once(own), 'reader')} at once, slower than with all"
