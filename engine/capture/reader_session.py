"""A reader's session with the source. It is kept from task to task while the worker process lives."""

from contextlib import suppress

import pymysql

from engine.capture.binlog.commit_visibility import CommitVisibility
from engine.capture.binlog.xa_visibility import XaVisibility
from engine.capture.pacing import Pacer
from engine.capture.row_counter import RowCounter
from engine.source.connect import Connection, Endpoint, Server, describe, open_connection
from engine.source.watermarks import WatermarkClass, Watermarks
from engine.source.xa_places import KnownPlaces


class ReaderSession:
    """A connection for SELECTs, and what belongs to it.

    The watermarks taken on it, the pacer of its reads, and the counter of its current chunk's rows.

    `xa_places`: where XA transactions were prepared, as its reads of the binlog have found.
    """

    def __init__(self, endpoint: Endpoint, kind: WatermarkClass, settle_s: float, first_server_id: int) -> None:
        self.connection: Connection = open_connection(endpoint)
        self.server: Server = describe(self.connection)
        xa_commits, commits = XaVisibility(endpoint, first_server_id), CommitVisibility(endpoint, first_server_id)
        self.watermarks = Watermarks(self.connection, self.server, kind, settle_s, xa_commits, commits)
        self.xa_places = KnownPlaces()
        self.pacer = Pacer()
        self.counter = RowCounter(None)


_sessions: dict[tuple[Endpoint, WatermarkClass], ReaderSession] = {}


def session(endpoint: Endpoint, kind: WatermarkClass, settle_s: float, first_server_id: int) -> ReaderSession:
    """Return this process's session. Open a new one if there is none or it has died."""
    key = (endpoint, kind)
    cached = _sessions.get(key)
    if cached is not None:
        try:
            cached.connection.ping(reconnect=False)
        except pymysql.Error:
            drop(endpoint, kind)
        else:
            return cached
    _sessions[key] = ReaderSession(endpoint, kind, settle_s, first_server_id)
    return _sessions[key]


def drop_all() -> None:
    """Close and forget all of this process's sessions."""
    for endpoint, kind in list(_sessions):
        drop(endpoint, kind)


def drop(endpoint: Endpoint, kind: WatermarkClass) -> None:
    """Close and forget this process's session. Needed after an error in the middle of a response."""
    cached = _sessions.pop((endpoint, kind), None)
    if cached is not None:
        with suppress(pymysql.Error, OSError):
            cached.connection.close()
