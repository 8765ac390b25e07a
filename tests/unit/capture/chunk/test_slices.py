"""The slices of a throttled chunk bring every row of its SELECT once, in order."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.capture.chunk import chunk_reader
from engine.capture.chunk.chunk_reader import ChunkRequest, read_rows, slice_statement
from engine.capture.reader_session import ReaderSession
from engine.capture.row_counter import RowCounter
from engine.decode.schema import Column, Table
from engine.plan.chunks import Range
from engine.plan.keys import ChunkKey
from engine.store.local_folder import LocalFolder

NAME = Column("name", "varchar", charset="latin1", collation="latin1_bin")
TABLE = Table("d", "t", (NAME,), ("name",))
KEY = ChunkKey((NAME,), "PRIMARY")


class FakeServer:
    """Answers the slices' SELECTs from a sorted list of keys; counts rows and statements."""

    def __init__(self, keys: list[str]) -> None:
        self.keys, self.sent, self.statements = sorted(keys), 0, list[str]()

    def select(self, _: object, __: object, sql: str, nulled: Counter[str], *___: object) -> Iterator[pa.Table]:
        self.statements.append(sql)
        found = re.search(r"> CONVERT\(_utf8mb4 x'([0-9a-f]*)'", sql)
        after = bytes.fromhex(found[1]).decode() if found else ""
        limit = int(sql.rpartition("LIMIT ")[2])
        rows = [key for key in self.keys if key > after][:limit]
        self.sent += len(rows)
        nulled["other"] += len(rows)
        for first in range(0, len(rows), 7):
            yield pa.table({"name": rows[first : first + 7]})


def fake_session(wait: Callable[[float], None]) -> ReaderSession:
    """A session with the given pacer."""
    pacer = SimpleNamespace(wait=wait, read=lambda *_: None)
    return cast(ReaderSession, SimpleNamespace(pacer=pacer, counter=RowCounter(None)))


def request(rows: int, rows_per_s: float, table: Table = TABLE, key: ChunkKey | None = KEY) -> ChunkRequest:
    """A whole table as a chunk."""
    return ChunkRequest(table, 0, key, Range(), rows, LocalFolder(Path()), 0, rows_per_s=rows_per_s)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("ab?", min_size=1, max_size=6), unique=True, max_size=200),
    st.integers(1, 150),
    st.integers(1, 100),
)
def test_slices_bring_what_one_select_brings(
    monkeypatch: pytest.MonkeyPatch, keys: list[str], rows: int, rows_per_s: int
) -> None:
    """Also if some keys cannot be bounds (`?` may stand for a code without a character); nothing is counted twice."""
    server, nulled = FakeServer(keys), Counter[str]()
    monkeypatch.setattr(chunk_reader, "_read_select", server.select)
    session = fake_session(lambda _: None)
    parts = list(read_rows(session, request(rows, rows_per_s), nulled, 0))
    read = [key for part in parts for key in part["name"].to_pylist()]
    assert read == server.keys[: 2 * rows]
    assert nulled["other"] == len(read)


def test_a_slice_follows_the_last_key_of_the_one_before() -> None:
    """Up to the chunk's end, in the order of the key's index."""
    chunk = ChunkRequest(TABLE, 0, KEY, Range(("a",), ("z",)), 9, LocalFolder(Path()), 0)
    first, later = slice_statement(chunk, None, 10), slice_statement(chunk, ("f",), 10)
    assert first.startswith("SELECT `name` FROM `d`.`t` FORCE INDEX (`PRIMARY`) WHERE `name` >= ")
    assert later == first.replace(">= ", "> ").replace(KEY.literal(0, "a"), KEY.literal(0, "f"))
    assert later.endswith(" ORDER BY `name` LIMIT 10")


@pytest.mark.parametrize(("transactional", "waits"), [(True, 2), (False, 0)])
def test_a_table_without_a_key_is_paced_block_by_block(
    monkeypatch: pytest.MonkeyPatch, transactional: bool, waits: int
) -> None:
    """Unless a slow SELECT would lock its writers out."""
    table, waited = Table("d", "t", (NAME,), (), transactional=transactional), list[float]()
    monkeypatch.setattr(chunk_reader, "_read_select", lambda *_: iter([pa.table({"name": ["a"]})]))
    session = fake_session(waited.append)
    (part,) = read_rows(session, request(9, 5.0, table, None), Counter())
    assert part["name"].to_pylist() == ["a"]
    assert len(waited) == waits
