"""A busy source whose sessions all use XA.

The copy ends, the log is followed, and no transaction costs a connection.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import Position, current
from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import apply_changes, assert_equal, log_faults, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import PASSWORD, USER, Server

SESSIONS, ROWS = 12, 6_000
_FORMS = ("'{0}'", "'{0}','a branch',77", "X'00{1:06x}FF00',X'0000',2147483647")
"""Ids as text, with a branch and a format, and with zeros at their ends."""


class XaSessions(Background):
    """Sessions that change a captured table and another one, each in XA transactions without a pause."""

    def __init__(self, server: Server) -> None:
        super().__init__(SESSIONS)
        self._server = server
        self.commits = [0] * SESSIONS

    def work(self, number: int) -> None:
        """Update, delete and insert, and sometimes roll back or commit at once."""
        with closing(self._server.connect(database="d")) as session, session.cursor() as cursor:
            round_ = 0
            while not self.stopping.is_set():
                round_ += 1
                key, table = (
                    (7 * round_ * SESSIONS + number) % ROWS,
                    ("t", "other")[round_ % 2],
                )  # each has keys of its own
                xid = _FORMS[round_ % 3].format(f"{number}-{round_ % 5}", key)  # ids are used again at once
                cursor.execute(f"XA START {xid}")
                cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE id = {key}")
                if round_ % 3 == 0:
                    cursor.execute(f"DELETE FROM {table} WHERE id = {key}")
                    cursor.execute(f"INSERT INTO {table} VALUES ({key}, {round_})")
                cursor.execute(f"XA END {xid}")
                if round_ % 7:
                    cursor.execute(f"XA PREPARE {xid}")
                end = (
                    "XA ROLLBACK {}" if round_ % 11 == 0 else "XA COMMIT {}" if round_ % 7 else "XA COMMIT {} ONE PHASE"
                )
                cursor.execute(end.format(xid))
                self.commits[number] += 1


@pytest.mark.timeout(600)
def test_xa_sessions_delay_neither_the_copy_nor_the_log(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Chunks are committed while the sessions run, and so is every position that the binlog has reached."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    for name in ("t", "other"):
        server.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)")
        rows = ", ".join(f"({key}, 0)" for key in range(ROWS))
        server.execute(f"INSERT INTO d.{name} VALUES {rows}")
    pipeline = new_pipeline(server, "d", tables=["d.t"], chunk_rows=500, poll=0.3, merge=2.0)
    with XaSessions(server) as sessions:
        before, commits = _connections(server), sum(sessions.commits)
        runner = pipeline.start_streaming()
        for _ in range(3):
            reached = _reached(server)
            pipeline.wait_for(partial(_has_committed, pipeline, reached), runner)
        pipeline.wait_for(lambda: sum(sessions.commits) - commits > 2_000, runner)
        opened, made = _connections(server) - before, sum(sessions.commits) - commits
    assert opened < made / 2
    pipeline.finish(runner)
    source = source_table(server, "d", "t")
    assert_equal(source, pipeline.mirror("t"))
    copied = pipeline.snapshot("t").replace_schema_metadata(source.schema.metadata)
    assert_equal(source, apply_changes(copied, pipeline.changes("t")))
    assert log_faults(copied, pipeline.changes("t")) == []


def _reached(server: Server) -> Position:
    with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
        return current(connection, describe(connection))


def _has_committed(pipeline: Pipeline, reached: Position) -> bool:
    file, _, offset = pipeline.events("epoch.committed")[-1]["to_position"].rpartition(":")
    return Position(file, int(offset)).order >= reached.order


def _connections(server: Server) -> int:
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])
