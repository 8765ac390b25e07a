"""One chunk, with writes injected at every step around its watermarks, is always exact at its high watermark."""

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.capture.binlog.binlog_reader import gtids_at
from engine.capture.chunk.chunk_reader import ChunkRequest, read_chunk
from engine.capture.reader_session import ReaderSession
from engine.plan.chunks import WHOLE, Range
from engine.plan.keys import own_key
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import Position, current
from engine.source.watermarks import Candidate, server_time_s, watermark_class
from engine.store.local_folder import LocalFolder
from tests.servers import PASSWORD, Server, create_user

STEPS = (
    "before_low",
    "after_low",
    "before_read",
    "after_read",
    "before_high",
    "after_high",
    "before_backfill",
    "after_backfill",
)
GRANTS = ["SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"]
CLASSES = [
    ("mysql", {}, [], "gtid"),
    ("mysql", {"gtid": False}, ["BACKUP_ADMIN ON *.*"], "log_status"),
    ("mysql", {"gtid": False}, [], "aged"),
    ("mariadb", {}, [], "snapshot"),
]
LOWER, UPPER, KEYS = 40, 80, 120


class Writer:
    """Random inserts, updates, deletes and key changes in a small key space; knows the rows of the chunk's range."""

    def __init__(self, server: Server, database: str, seed: int) -> None:
        self._server, self._table, self._chance = server, f"`{database}`.t", random.Random(seed)
        server.execute(f"CREATE TABLE {self._table} (id INT PRIMARY KEY, v INT NOT NULL)")
        server.execute(f"INSERT INTO {self._table} VALUES " + ", ".join(f"({n}, 0)" for n in range(0, KEYS, 2)))

    def write(self) -> None:
        """Run a few transactions."""
        for _ in range(6):
            one, other = self._chance.sample(range(KEYS), 2)
            self._server.execute(
                self._chance.choice(
                    [
                        f"REPLACE INTO {self._table} VALUES ({one}, {self._chance.randrange(1000)})",
                        f"UPDATE {self._table} SET v = v + 1 WHERE id IN ({one}, {other})",
                        f"DELETE FROM {self._table} WHERE id = {one}",
                        f"UPDATE IGNORE {self._table} SET id = {other} WHERE id = {one}",
                    ]
                )
            )

    def in_range(self) -> list[tuple[int, int]]:
        """The current rows of the chunk's range in the source."""
        rows = self._server.execute(f"SELECT id, v FROM {self._table} WHERE id >= {LOWER} AND id < {UPPER} ORDER BY id")
        return [(int(a), int(b)) for a, b in rows]


def _reader(server: Server) -> Endpoint:
    return Endpoint(server.host, server.port, "reader", PASSWORD)


def _stand(
    server: Server, database: str, grants: list[str], kind: Any, folder: Path
) -> tuple[ReaderSession, ChunkRequest, Writer]:
    """A reader of this class of low watermarks, a chunk to read, and a writer that changes it."""
    create_user(server, "reader", [*GRANTS, *grants])
    writer = Writer(server, database, seed=11)
    with closing(open_connection(_reader(server))) as connection:
        assert watermark_class(connection, describe(connection)) == kind
        table = read_table(connection, database, "t")
    limits = Range((str(LOWER),), (str(UPPER),))
    request = ChunkRequest(table, 0, own_key(table), limits, 1000, LocalFolder(folder), 1 << 20)
    return ReaderSession(_reader(server), kind, settle_s=0.2, first_server_id=6000), request, writer


@pytest.mark.parametrize(("flavor", "options", "grants", "kind"), CLASSES, ids=[case[3] for case in CLASSES])
def test_a_chunk_is_exact_at_its_high_watermark(
    server_with: Callable[..., Server],
    new_database: Callable[[Server], str],
    tmp_path: Path,
    flavor: str,
    options: dict[str, Any],
    grants: list[str],
    kind: str,
) -> None:
    """Whatever is written at one step or at all steps, the file holds the range as of the high watermark."""
    server = server_with(flavor, **options)
    session, request, writer = _stand(server, new_database(server), grants, kind, tmp_path)
    endpoint = _reader(server)
    merged = 0
    for steps in [(), *((step,) for step in STEPS), STEPS, STEPS, STEPS]:
        session.watermarks.offer(_candidate(endpoint, session, kind))
        seen: dict[str, list[tuple[int, int]]] = {}

        def step(name: str, steps: tuple[str, ...] = steps, seen: dict[str, Any] = seen) -> None:
            if kind == "snapshot" and name == "after_low":
                seen["exact"] = writer.in_range()
            if name in steps:
                writer.write()
            if kind != "snapshot" and name == "before_high":
                seen["exact"] = writer.in_range()

        result = read_chunk(session, endpoint, 6100, request, step)
        read = pa.concat_tables(pq.read_table(tmp_path / file.name) for file in result.files).sort_by("id")
        assert list(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == seen["exact"], steps
        assert result.low.order <= result.high.order
        merged += result.backfill.changes
    assert (merged == 0) == (kind == "snapshot")


def _candidate(endpoint: Endpoint, session: ReaderSession, kind: str) -> Candidate:
    """The position that the coordinator would offer: the end of the binlog, with its GTID set if the class needs it."""
    end = current(session.connection, session.server)
    gtids = gtids_at(endpoint, end, 6100) if kind == "gtid" else None
    return Candidate(Position(end.file, end.offset, gtids), server_time_s(session.connection))


@pytest.mark.parametrize(("flavor", "options", "grants", "kind"), CLASSES, ids=[case[3] for case in CLASSES])
def test_a_throttled_chunk_is_exact_at_its_high_watermark(
    server_with: Callable[..., Server],
    new_database: Callable[[Server], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flavor: str,
    options: dict[str, Any],
    grants: list[str],
    kind: str,
) -> None:
    """Its slices show different states of the table.

    No transaction is open between them, so the source may even be altered.
    """
    server = server_with(flavor, **options)
    session, request, writer = _stand(server, new_database(server), grants, kind, tmp_path)
    endpoint, request = _reader(server), replace(request, rows_per_s=5.0)
    slices, exact, merged = 0, list[tuple[int, int]](), 0

    def write(_: float) -> None:
        nonlocal slices
        slices += 1
        writer.write()

    def step(name: str) -> None:
        if name == "before_high":
            exact[:] = writer.in_range()

    monkeypatch.setattr(session.pacer, "wait", write)
    for _ in range(8):
        session.watermarks.offer(_candidate(endpoint, session, kind))
        result = read_chunk(session, endpoint, 6400, request, step)
        read = pa.concat_tables(pq.read_table(tmp_path / file.name) for file in result.files).sort_by("id")
        assert list(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == exact
        merged += result.backfill.changes
    assert slices >= 16
    assert merged


def test_rows_that_outgrow_memory_are_spilled(server: Server, database: str, tmp_path: Path) -> None:
    """A chunk far larger than its share of memory is complete, including its backfill."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT NOT NULL)")
    for base in range(0, 40_000, 10_000):
        rows = ", ".join(f"({n}, 0)" for n in range(base, base + 10_000))
        server.execute(f"INSERT INTO `{database}`.t VALUES {rows}")
    endpoint = Endpoint(server.host, server.port, "tidemark", PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        kind, table = watermark_class(connection, described), read_table(connection, database, "t")
    session = ReaderSession(endpoint, kind, settle_s=0.2, first_server_id=6000)
    session.watermarks.offer(_candidate(endpoint, session, kind))

    def step(name: str) -> None:
        if name == "after_read":
            server.execute(f"UPDATE `{database}`.t SET v = 1 WHERE id % 1000 = 0")
            server.execute(f"DELETE FROM `{database}`.t WHERE id % 1000 = 1")

    request = ChunkRequest(table, 0, own_key(table), WHOLE, 100_000, LocalFolder(tmp_path), max_memory=1)
    result = read_chunk(session, endpoint, 6200, request, step)
    rows = pa.concat_tables(pq.read_table(tmp_path / file.name) for file in result.files)
    backfilled = 40 if kind == "gtid" else 0
    assert result.rows == rows.num_rows == 40_000 - backfilled
    assert sum(rows["v"].to_pylist()) == backfilled
