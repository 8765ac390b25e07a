"""Transactions of every form that a binlog can contain, during a copy and after.

Mirror and change log equal the source.
"""

import json
import random
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pymysql
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import apply_changes, assert_equal, log_faults, source_table
from tests.servers import Server

ROWS = 2000
_CONFLICTS = (1205, 1213, 1062, 1614, 1399)


class Odd(Background):
    """Transactions of one session: XA, savepoints, rollbacks, two engines, large, tagged, other domains, compressed."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__()
        self._server, self._seed, self._random = server, seed, random.Random(seed)
        self._mariadb, self._number = server.flavor == "mariadb", 0
        self.done: dict[str, int] = {}

    def work(self, _number: int) -> None:
        """Run transactions of random forms."""
        forms = [self._plain, self._xa, self._xa_rolled_back, self._one_phase, self._savepoints, self._rolled_back]
        forms += [self._other_engine, self._large, self._tagged, self._rotated, self._document]
        with closing(self._server.connect(database="d", autocommit=False)) as connection, connection.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 2")
            if not self._mariadb:
                cursor.execute("SET binlog_row_value_options = PARTIAL_JSON")
            while not self.stopping.wait(0.005):
                form = self._random.choice(forms)
                self._number += 1
                try:
                    form(cursor)
                    self.done[form.__name__] = self.done.get(form.__name__, 0) + 1
                except pymysql.MySQLError as error:
                    if error.args[0] not in _CONFLICTS:
                        raise
                    self._recover(cursor)

    def _recover(self, cursor: Any) -> None:
        for statement in (f"XA END {self._xid}", f"XA ROLLBACK {self._xid}", "ROLLBACK"):
            try:
                cursor.execute(statement)
            except pymysql.MySQLError:
                continue

    @property
    def _xid(self) -> str:
        return f"'x{self._seed}-{self._number}'"

    def _write(self, cursor: Any, table: str = "t", rows: int = 3) -> None:
        for _ in range(rows):
            key = self._random.randrange(ROWS)
            cursor.execute(
                f"INSERT INTO d.{table} VALUES (%s, 1, %s) ON DUPLICATE KEY UPDATE v = v + 1, note = VALUES(note)",
                (key, f"{self._seed}-{self._number} " * 9),
            )
        cursor.execute(f"DELETE FROM d.{table} WHERE id = %s", (self._random.randrange(ROWS),))

    def _plain(self, cursor: Any) -> None:
        self._write(cursor)
        cursor.execute("COMMIT")

    def _prepare(self, cursor: Any) -> None:
        cursor.execute(f"XA START {self._xid}")
        self._write(cursor)
        cursor.execute(f"XA END {self._xid}")
        cursor.execute(f"XA PREPARE {self._xid}")

    def _xa(self, cursor: Any) -> None:
        self._prepare(cursor)
        cursor.execute(f"SELECT SLEEP({self._random.choice([0, 0.05, 1.2])})")  # some are decided epochs later
        cursor.execute(f"XA COMMIT {self._xid}")

    def _xa_rolled_back(self, cursor: Any) -> None:
        self._prepare(cursor)
        cursor.execute(f"XA ROLLBACK {self._xid}")

    def _one_phase(self, cursor: Any) -> None:
        cursor.execute(f"XA START {self._xid}")
        self._write(cursor)
        cursor.execute(f"XA END {self._xid}")
        cursor.execute(f"XA COMMIT {self._xid} ONE PHASE")

    def _savepoints(self, cursor: Any) -> None:
        self._write(cursor)
        cursor.execute("SAVEPOINT a")
        if self._mariadb:
            self._temporary(cursor)
        self._write(cursor)
        cursor.execute("ROLLBACK TO a")
        self._write(cursor)
        cursor.execute("COMMIT")

    def _temporary(self, cursor: Any) -> None:
        cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS d.passing (id INT)")
        cursor.execute("DROP TEMPORARY TABLE d.passing")

    def _rolled_back(self, cursor: Any) -> None:
        self._write(cursor)
        if self._mariadb:
            self._temporary(cursor)
        cursor.execute("ROLLBACK")

    def _other_engine(self, cursor: Any) -> None:
        cursor.execute("SET autocommit = 1")
        self._write(cursor, "m")
        cursor.execute("SET autocommit = 0")

    def _document(self, cursor: Any) -> None:
        """Update documents in place, which MySQL logs as differences."""
        key, kept = self._random.randrange(50), json.dumps({"n": [1, 2, {"a": "x" * 200}], "keep": "y" * 200})
        cursor.execute("INSERT IGNORE INTO d.j VALUES (%s, %s)", (key, kept))
        for change in (
            "JSON_SET(doc, '$.n[1]', %s)",
            "JSON_REPLACE(doc, '$.n[2].a', %s)",
            "JSON_ARRAY_INSERT(doc, '$.n[0]', %s)",
        ):
            cursor.execute(f"UPDATE d.j SET doc = {change} WHERE id = %s", (self._number, key))
        cursor.execute("UPDATE d.j SET doc = JSON_REMOVE(doc, '$.n[3]') WHERE id = %s", (key,))
        cursor.execute("COMMIT")

    def _large(self, cursor: Any) -> None:
        cursor.execute("UPDATE d.t SET v = v + 1, note = REPEAT(note, 2) WHERE id % 3 = 0 AND LENGTH(note) < 4000")
        cursor.execute("COMMIT")

    def _tagged(self, cursor: Any) -> None:
        own, usual = (
            ("gtid_domain_id = 7", "gtid_domain_id = 0")
            if self._mariadb
            else ("gtid_next = 'AUTOMATIC:odd'", "gtid_next = 'AUTOMATIC'")
        )
        cursor.execute(f"SET {own}")
        self._write(cursor)
        cursor.execute("COMMIT")
        cursor.execute(f"SET {usual}")

    def _rotated(self, cursor: Any) -> None:
        """Rotate the binlog and toggle its compression."""
        if self._random.random() < 0.2:
            cursor.execute("FLUSH BINARY LOGS")
        setting = "GLOBAL log_bin_compress" if self._mariadb else "SESSION binlog_transaction_compression"
        cursor.execute(f"SET {setting} = {self._random.randrange(2)}")


@pytest.mark.timeout(600)
def test_every_form_of_transaction(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """During the copy and while streaming: equal rows, and a change log without gap or duplicate."""
    server = private_server(flavor, **({"log_bin_compress_min_len": 10} if flavor == "mariadb" else {}))
    server.execute("CREATE DATABASE d")
    for name, engine in (("t", "InnoDB"), ("m", "MyISAM")):
        server.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT, note TEXT) ENGINE={engine}")
    server.execute("CREATE TABLE d.j (id INT PRIMARY KEY, doc JSON)")
    pipeline = new_pipeline(server, "d", chunk_rows=200, poll=0.3, merge=2.0)
    writers = [Odd(server, seed) for seed in range(3)]
    with ExitStack() as running:
        for writer in writers:
            running.enter_context(writer)
        while sum(sum(writer.done.values()) for writer in writers) < 100:
            time.sleep(0.1)  # or there is nothing to copy
        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.events("table.state")) >= 6, runner)
        since = sum(sum(writer.done.values()) for writer in writers)
        pipeline.wait_for(lambda: sum(sum(w.done.values()) for w in writers) > since + 300, runner)
    pipeline.finish(runner)
    assert {form for writer in writers for form in writer.done} >= {
        "_xa",
        "_xa_rolled_back",
        "_one_phase",
        "_savepoints",
        "_large",
        "_document",
    }
    for name in ("t", "m", "j"):
        source = source_table(server, "d", name)
        assert_equal(source, pipeline.mirror(name))
        copied = pipeline.snapshot(name).replace_schema_metadata(source.schema.metadata)
        assert_equal(source, apply_changes(copied, pipeline.changes(name)))
        assert log_faults(copied, pipeline.changes(name)) == []
    assert pipeline.status()["log"]["unknown_events"] == 0
