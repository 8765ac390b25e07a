"""Whether the server lets the user open as many connections as a run needs.

A run needs one per reader for chunks and the binlog, and four more: for epochs, for the end of the binlog, to see whether the
server answers, and for looks at the catalog and the load. Measured on both servers: 6 with two readers, 8 with four. With fewer
allowed, readers and epochs take them from each other, and a run waits for ever.
"""

from typing import Literal

from engine.source.connect import Connection, query

SHARED = 4
"""Connections besides those of the readers."""
Finding = tuple[str, Literal["ok", "warn", "fail"], str, str, str, str]
"""Name, outcome, what was expected, what was found, why it matters, and the fix."""
_LIMITS = "SELECT @@session.max_user_connections AS own, @@global.max_connections AS total"
_CONNECTED = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
_WHY = "With fewer connections, readers and epochs wait for each other."


def connection_limits(connection: Connection, user: str, readers: int) -> list[Finding]:
    """What the limits of the user and of the server allow. readers: how many run at the same time."""
    (limits,) = query(connection, _LIMITS)
    (connected,) = query(connection, _CONNECTED)
    free = int(limits["total"]) - int(connected["Value"])
    return judged(int(limits["own"]), free, user, readers)


def judged(own: int, free: int, user: str, readers: int) -> list[Finding]:
    """The findings for these limits. own: of the user, 0 for none. free: connections that nobody uses now. Pure."""
    needed = readers + SHARED
    expected = f"{needed} or more ({readers} readers and {SHARED})"
    name = "connections of the user"
    if own and own < needed:
        fewer = f' Or set [spark] master = "local[{own - SHARED}]": it is slower.' if own > SHARED else ""
        fix = f"ALTER USER '{user}' WITH MAX_USER_CONNECTIONS {needed};{fewer}"
        return [(name, "fail", expected, f"max_user_connections = {own}", _WHY, fix)]
    found: list[Finding] = [(name, "ok", expected, str(own) if own else "no limit", _WHY, "")]
    if free < needed:
        fix = "Raise max_connections, or end connections that are not needed."
        found.append(("connections of the server", "warn", expected, f"{max(free, 0)} free now", _WHY, fix))
    return found
