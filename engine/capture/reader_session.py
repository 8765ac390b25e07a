"""A reader's own session with the source, kept from task to task for as long as the worker process lives."""

from contextlib import suppress

import pymysql

from engine.source.connect import Connection, Endpoint, Server, describe, open_connection
from engine.source.watermarks import WatermarkClass, Watermarks


class ReaderSession:
    """A connection for SELECTs, and the watermarks taken on it."""

    def __init__(self, endpoint: Endpoint, kind: WatermarkClass, settle_s: float) -> None:
        self.connection: Connection = open_connection(endpoint)
        self.server: Server = describe(self.connection)
        self.watermarks = Watermarks(self.connection, self.server, kind, settle_s)


_sessions: dict[tuple[Endpoint, WatermarkClass], ReaderSession] = {}


def session(endpoint: Endpoint, kind: WatermarkClass, settle_s: float) -> ReaderSession:
    """This process's session; a new one when there is none or it has died."""
    key = (endpoint, kind)
    held = _sessions.get(key)
    if held is not None:
        try:
            held.connection.ping(reconnect=False)
        except pymysql.Error:
            drop(endpoint, kind)
        else:
            return held
    _sessions[key] = ReaderSession(endpoint, kind, settle_s)
    return _sessions[key]


def drop(endpoint: Endpoint, kind: WatermarkClass) -> None:
    """Forget this process's session, after an error in the middle of a response."""
    held = _sessions.pop((endpoint, kind), None)
    if held is not None:
        with suppress(pymysql.Error, OSError):
            held.connection.close()
