"""A table with a story of epochs, published to Delta by a publisher that may be killed."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.destination import DeltaDestination
from engine.destination.destination_protocol import Destination
from engine.destination.fence import Term
from engine.destination.publisher import Publisher
from engine.destination.registry import destination_of
from engine.journal import Journal
from engine.ledger.record_json import change_from_json
from engine.ledger.records import EpochRecord
from engine.ledger.store import Ledger
from engine.plan.chunks import WHOLE, Plan
from engine.plan.coverage import Chunk, Coverage, split_as_dict
from engine.source.positions import Position
from engine.spec.sink_settings import MirrorMode, Sink
from tests.support.delta import rows_at
from tests.support.patience import PATIENCE_S

ID, V, W = Column("id", "int", nullable=False), Column("v", "int"), Column("w", "int")
OLD = Table("d", "t", (ID, V), ("id",))
BARE = replace(OLD, key=())
WIDER = replace(OLD, columns=(ID, V, W))
OTHER = replace(OLD, columns=(ID, Column("v", "bigint")))
PLAN = Plan("d.t", 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "one", "", 9, 1, "10", "10")
RANKED = replace(PLAN, chunk_key=("v",))
WHOLE_SPLIT = split_as_dict([Chunk(0, WHOLE)], Coverage(next_number=1))
SPEC = """
name = "shop"
source = { host = "h", user = "u", tables = ["d.*"] }
sink = { path = "lake" }
"""
Found = TypeVar("Found")
Kind = Literal["delta", "parquet", "kafka", "postgresql", "mysql", "duckdb", "python"]
DATABASES: tuple[Kind, ...] = ("postgresql", "mysql", "duckdb")
BROKER = "TIDEMARK_TEST_KAFKA"
"""The variable with the address of the tests' broker."""
DATABASE = "TIDEMARK_TEST_DATABASE"
"""The variable with the server and login of the tests' database: `[sink.database]` as JSON."""
Rows = Sequence[tuple[Any, ...]]


def lake_destination(folder: Path, known_tables: Path | None = None) -> DeltaDestination:
    """The destination of the pipeline in a folder, as a process opens it."""
    return DeltaDestination(Sink(path=folder / "lake"), folder / "maintenance", known_tables)


def topic_rule(folder: Path) -> str:
    """The rule for topics of a test, which has a broker with other tests."""
    return f"{folder.name}.{{database}}.{{table}}"


def schema_of(folder: Path) -> str:
    """The schema of a test's tables, in a database with other tests."""
    return f"x{folder.name[-40:]}"


class World:
    """A ledger and a destination in one folder, and the records of a story, published one by one."""

    def __init__(self, folder: Path, mode: MirrorMode = "copy_on_write", kind: Kind = "delta") -> None:
        self._folder, self._mode, self._seq, self.records = folder, mode, 0, list[EpochRecord]()
        self._kind: Kind = kind

    @property
    def notes(self) -> Path:
        return self._folder / "maintenance"

    def sink(self, merge_interval_s: float) -> Sink:
        lake = self._folder / "lake"
        if self._kind == "kafka":
            kafka = {"servers": os.environ[BROKER], "topic": topic_rule(self._folder)}
            name = self._folder.name
            return Sink.model_validate({"type": "kafka", "name": name, "path": lake, "kafka": kafka})
        if self._kind in DATABASES:
            database = {**json.loads(os.environ[DATABASE]), "table": f"{schema_of(self._folder)}.{{table}}"}
            return Sink.model_validate(
                {"type": self._kind, "name": schema_of(self._folder), "path": lake, "database": database}
            )
        if self._kind == "python":
            writer = {"function": "tests.support.recording_writer.write"}
            return Sink.model_validate({"type": "python", "path": lake, "writer": writer})
        if self._kind != "delta":
            return Sink(type=self._kind, path=lake, merge_interval_s=merge_interval_s)
        return Sink(path=lake, mirror=self._mode, merge_interval_s=merge_interval_s)

    def destination(self) -> Destination:
        """Its destination, as a process opens it."""
        return destination_of(self.sink(0.0), self.notes)

    def file(self, table: Table, kind: str, rows: Rows) -> list[Any]:
        schema = arrow_schema(table)
        landing = self.destination().landing
        if kind == "chunk":
            with FileWriter(landing.chunks(table), "chunk", schema, table.key) as writer:
                writer.write(
                    pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
                )
                return [file.as_dict() for file in writer.close()]
        changes = []
        for change, *row in rows:
            self._seq += 1
            changes.append({**dict(zip(schema.names, row, strict=True)), "_tm_kind": change, "_tm_seq": self._seq})
        with FileWriter(landing.changes(table), "changes", log_schema(schema), (*table.key, "_tm_seq")) as writer:
            writer.write(pa.Table.from_pylist(changes, schema=log_schema(schema)))
            return [file.as_dict() for file in writer.close()]

    def epoch(self, **change: Any) -> None:
        """Add an epoch with a change of the table. change: its JSON."""
        self.tables_epoch({"d.t": change})

    def tables_epoch(self, changes: Mapping[str, Any]) -> None:
        """Add an epoch with changes of tables. changes: their JSON by table."""
        n = len(self.records)
        own: dict[str, Any] = {"ledger": "L", "identity": "server"} if n == 0 else {}
        at = Position("b.000001", 4 + n)
        tables = {name: change_from_json(change) for name, change in changes.items()}
        self.records.append(EpochRecord(n, "r", "", at, at, self._seq, tables, **own))

    def chunk(self, table: Table, rows: Rows) -> Any:
        files = self.file(table, "chunk", rows)
        return {"chunk": 0, "exact": None, "files": files, "rows": len(rows), "nulled": {}}

    def changes(self, table: Table, rows: Rows) -> Any:
        return {"files": self.file(table, "changes", rows), "kinds": [len(rows), 0, 0, 0], "nulled": {}}


def switch(before: Table, after: Table, plan: Plan = PLAN, **more: Any) -> Any:
    """The record of a table whose definition changes with the next epoch."""
    return {"table": after.as_dict(), "plan": plan.as_dict(), "before": before.as_dict(), **more}


def publish_story(world: World, folder: Path, killed: Sequence[int], since: int = 0) -> None:
    """Commit and publish the story from epoch `since` on.

    Each epoch in `killed` starts a new publisher; the one before never merges again.
    """
    ledger, journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
    publisher = None
    for record in world.records[since:]:
        ledger.commit(record)
        if publisher is None or record.epoch in killed:
            if publisher is not None:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(publisher._replay, "merge_all", lambda: None)
                    publisher.finish()
            publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
            assert ledger.state is not None
            publisher.tables.open_all(ledger.state)
            publisher.recover()
        else:
            publisher.submit(record)
    assert publisher is not None
    publisher.finish()
    journal.close()


def mirror(folder: Path) -> list[tuple[Any, ...]]:
    """The mirror's rows, sorted."""
    rows = rows_at(folder / "lake/d/t").drop_columns("_tm_seq").to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def log(folder: Path) -> list[tuple[Any, ...]]:
    """The change log: kind, id, v, w."""
    rows = DeltaTable(str(folder / "lake/d/t__changes")).to_pyarrow_table().sort_by("_tm_seq").to_pylist()
    return [(row["_tm_kind"], row["id"], row["v"], row.get("w")) for row in rows]


def resnapshotted(world: World, after: Table = OTHER, plan: Plan = PLAN) -> None:
    """A copy, changes, an alteration, more changes before the table is read again, and the new copy."""
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2), (3, 3)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 4, 4), ("-D", 1, 1)]), resnapshot=switch(OLD, after, plan))
    world.epoch(split=WHOLE_SPLIT)
    big = 2**40 if after is OTHER else 40
    world.epoch(
        chunks=[world.chunk(after, [(2, 20), (4, big)])], changes=world.changes(after, [("+I", 5, 50)]), copied=True
    )
    world.epoch(changes=world.changes(after, [("-D", 2, 20), ("+I", 6, 60)]))


def story(world: World) -> None:
    """A copied table with changes in three epochs."""
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]))
    world.epoch(changes=world.changes(OLD, [("-D", 1, 1)]))


def wait_for(found: Callable[[], Found]) -> Found:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not (result := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


def taken(world: World, run: str, number: int) -> Destination:
    """The destination, taken by a runner with this term."""
    destination = world.destination()
    destination.terms.take("L", Term(number, run, "host", 1, ""))
    return destination


def world_files(part: Any) -> list[DataFile]:
    """The files of a chunk or of changes. part: their JSON."""
    return [DataFile(**file) for file in part["files"]]
