"""The contract of destinations, on PostgreSQL, MySQL and MariaDB (`tests.unit.destination.test_contract`)."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest

from engine.base.errors import DestinationError, IncompatibleColumnsError, PipelineHeldError, SpecError, TidemarkError
from engine.base.store_errors import StoreAwayError
from engine.decode.schema import Column
from engine.destination.capabilities import CompletesCopies
from engine.destination.database import database_transaction, duckdb_file
from engine.destination.database import mysql as mysql_module
from engine.destination.database import postgresql as postgresql_module
from engine.destination.destination_protocol import CHANGES, CHUNKS, Destination, DestinationTable, EpochEnd
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from tests.support import database
from tests.support.depth import depth
from tests.unit.destination.support import (
    BARE,
    DATABASE,
    ID,
    OLD,
    PLAN,
    WHOLE_SPLIT,
    WIDER,
    Kind,
    Rows,
    World,
    publish_story,
    schema_of,
    story,
    switch,
    taken,
    world_files,
)
from tests.unit.destination.test_contract import (
    table_rows,
    test_a_column_comes_and_another_one_goes,
    test_a_failed_table_fails_alone_and_stays_as_it_was,
    test_a_failed_table_is_repaired_by_a_resnapshot,
    test_a_pipeline_that_copies_nothing_empties_the_table,
    test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed,
    test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns,
    test_an_earlier_term_writes_nothing_more,
    test_an_epoch_that_is_applied_again_changes_nothing,
    test_what_a_destination_cannot_do_is_absent,
    test_what_is_not_published_is_not_seen,
)

__all__ = [
    "test_a_column_comes_and_another_one_goes",
    "test_a_failed_table_fails_alone_and_stays_as_it_was",
    "test_a_failed_table_is_repaired_by_a_resnapshot",
    "test_a_pipeline_that_copies_nothing_empties_the_table",
    "test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed",
    "test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns",
    "test_an_earlier_term_writes_nothing_more",
    "test_an_epoch_that_is_applied_again_changes_nothing",
    "test_what_a_destination_cannot_do_is_absent",
    "test_what_is_not_published_is_not_seen",
]
STATE = "tidemark_state"


SERVERS = pytest.mark.parametrize("database_address", ["postgresql", "mysql", "mariadb"], indirect=True)
"""For what a file that one process has open does not know."""


@pytest.fixture
def kind(database_kind: Kind) -> Kind:
    """This destination."""
    return database_kind


class _Cut:
    """Counts what sessions are asked for, and ends one of them before, or behind, the statement of a number."""

    def __init__(self, at: int, *, behind: bool, kills: bool) -> None:
        self._at = at
        self._behind = behind
        self._kills = kills
        self.count = 0
        self._sessions = set[Any]()

    def __call__(self, session: Any, action: Callable[[], Any]) -> Any:
        self.count += 1
        self._sessions.add(session)
        if self.count != self._at:
            return action()
        if self._behind:
            action()
        for one in self._sessions if self._kills else {session}:
            with suppress(pymysql.Error):  # it was closed already
                one.connection.close()
        if self._kills:
            raise database.Killed
        return action()  # of a session that is lost


def _watched(monkeypatch: pytest.MonkeyPatch, cut: _Cut) -> None:
    """Have each session ask the cut first."""
    for session in (postgresql_module._PostgresSession, mysql_module._MysqlSession, duckdb_file._DuckdbSession):
        for name in ("query", "run", "commit"):
            original = getattr(session, name)

            def asked(self: Any, *arguments: Any, original: Any = original) -> Any:
                return cut(self, partial(original, self, *arguments))

            monkeypatch.setattr(session, name, asked)


def _whole_story(world: World) -> Rows:
    """A copy, changes, a new column, a resnapshot with rows that are gone, one with another type. Returns the rows."""
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3), ("-D", 1, 1)]), altered=switch(OLD, WIDER))
    world.epoch(changes=world.changes(WIDER, [("-U", 3, 3, None), ("+U", 3, 4, 5)]), resnapshot=switch(WIDER, WIDER))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(WIDER, [(3, 4, 5), (7, 7, 7)])], copied=True)
    narrow = replace(OLD, columns=(ID, Column("v", "varchar", length=80, charset="utf8mb4")))
    world.epoch(changes=world.changes(WIDER, [("+I", 8, 8, 8)]), resnapshot=switch(WIDER, narrow))
    world.epoch(
        split=WHOLE_SPLIT,
        chunks=[world.chunk(narrow, [(3, "c"), (8, "d")])],
        changes=world.changes(narrow, [("-D", 3, "c")]),
        copied=True,
    )
    world.epoch(changes=world.changes(narrow, [("+I", 9, "e")]))
    return [(8, "d"), (9, "e")]


def _killed_once(world: World, folder: Path) -> None:
    """Publish the story by runners that continue where the one before was killed."""
    ledger = Ledger(folder / "ledger")
    number = 0
    while True:
        journal = Journal(folder / "j.jsonl", "r")
        if ledger.state is None:
            ledger.commit(world.records[0])
            number = 1
        assert ledger.state is not None
        publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
        try:
            publisher.tables.open_all(ledger.state)
            publisher.recover()
            while number < len(world.records):
                ledger.commit(world.records[number])
                number += 1
                publisher.submit(world.records[number - 1])
                publisher.drain()
            publisher.finish()
        except (database.Killed, StoreAwayError, TidemarkError) as error:
            with suppress(TidemarkError):
                publisher.finish()
            ended = (database.Killed, StoreAwayError)
            if not isinstance(error, ended) and not isinstance(error.__cause__, ended):
                raise
        else:
            assert not publisher.tables.failed_tables()
            return
        finally:
            journal.close()


@pytest.mark.parametrize(("behind", "kills"), [(False, True), (True, True), (False, False), (True, False)])
def test_every_row_is_right_wherever_a_session_ends(
    tmp_path: Path, kind: Kind, behind: bool, kills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner is killed, or the connection is lost, at each statement, before it was done or behind it."""
    monkeypatch.setattr(database_transaction, "_PAUSE_S", 0.0)
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = _whole_story(world := World(whole, kind=kind))
    with monkeypatch.context() as patch:
        _watched(patch, nothing := _Cut(0, behind=behind, kills=kills))
        _killed_once(world, whole)
    assert table_rows(kind, whole) == expected
    step = depth(16, 1)
    for at in range(1 + (2 * behind + kills) % step, nothing.count + 1, step):
        folder = tmp_path / f"k{at}_{behind:d}{kills:d}"
        folder.mkdir()
        _whole_story(world := World(folder, kind=kind))
        with monkeypatch.context() as patch:
            _watched(patch, _Cut(at, behind=behind, kills=kills))
            _killed_once(world, folder)
        assert table_rows(kind, folder) == expected, at


def test_a_table_of_somebody_else_is_refused(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """One that exists, one of another pipeline, and one that the rule for names gives to two tables."""
    world = World(tmp_path, kind=kind)
    schema = schema_of(tmp_path)
    place = database.quoted(kind, schema, "t")
    create = "DATABASE" if kind == "mysql" else "SCHEMA"
    database.queried(
        database_address, f"CREATE {create} {database.quoted(kind, schema)}", f"CREATE TABLE {place} (x int)"
    )
    table = world.destination().table(Owner("L"), OLD, PLAN)
    for action in (lambda: table.check(None, OLD), lambda: table.open(must_exist=False)):
        with pytest.raises(SpecError, match="exists, and this pipeline has not made it"):
            action()
    table.drop()
    database.queried(database_address, f"SELECT x FROM {place}", f"DROP TABLE {place}")
    world.destination().table(Owner("L"), OLD, PLAN).open(must_exist=False)
    with pytest.raises(SpecError, match="has not made it"):
        world.destination().table(Owner("other"), OLD, PLAN).open(must_exist=False)
    with pytest.raises(SpecError, match=r"is the one of d\.t, too"):
        world.destination().table(Owner("L"), replace(OLD, database="e"), PLAN).open(must_exist=False)


def test_a_table_without_a_key_is_refused(tmp_path: Path, kind: Kind) -> None:
    """Before anything is written, and when a table loses its key."""
    table = World(tmp_path, kind=kind).destination().table(Owner("L"), BARE, PLAN)
    for action in (lambda: table.check(None, BARE), lambda: table.open(must_exist=False)):
        with pytest.raises(SpecError, match="has no primary key"):
            action()
    with pytest.raises(IncompatibleColumnsError, match="has no primary key"):
        table.check(OLD, BARE)


def test_a_table_that_is_gone_is_made_again_by_a_copy_alone(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """Never in silence: the rows from before would be missing."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    for lost in (f"ALTER TABLE {database.quoted(kind, schema_of(tmp_path), 't')} DROP COLUMN v", None):
        database.queried(database_address, lost or f"DROP TABLE {database.quoted(kind, schema_of(tmp_path), 't')}")
        table = world.destination().table(Owner("L"), OLD, PLAN)
        assert ("has lost its column v" if lost else "is gone") in table.read_state().fault
        with pytest.raises(DestinationError, match="but the ledger has published rows to it"):
            table.open(must_exist=True)
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    assert table.open(must_exist=False, copied_as=OLD).is_new
    table.begin_copy(OLD, PLAN, 4, "")
    table.append(CHUNKS, 5, world_files(world.chunk(OLD, [(5, 5)])))
    assert isinstance(table, CompletesCopies)
    table.complete_copy(5)
    destination.publish(EpochEnd(5, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(5, 5)]


def test_a_table_that_was_dropped_leaves_nothing(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """It can join again."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    destination = taken(world, "a", 1)
    destination.table(Owner("L"), OLD, PLAN).drop()
    with pytest.raises((psycopg.Error, pymysql.Error, duckdb.Error)):
        table_rows(kind, tmp_path)
    again = world.destination().table(Owner("L"), OLD, PLAN)
    again.check(None, OLD)
    again = (destination := taken(world, "b", 2)).table(Owner("L"), OLD, PLAN)
    assert again.open(must_exist=False).applied_epochs[CHANGES] == -1
    assert again.append(CHANGES, 9, world_files(world.changes(OLD, [("+I", 7, 7)])))
    destination.publish(EpochEnd(9, "b:77", ""))
    assert table_rows(kind, tmp_path) == [(7, 7)]
    state = database.quoted(
        kind, database_address.get("state_schema", "main" if kind == "duckdb" else STATE), "_tidemark_epochs"
    )
    pipeline = f"pipeline = 'L.{schema_of(tmp_path)}'"
    assert database.queried(database_address, f"SELECT term, epoch, position FROM {state} WHERE {pipeline}") == [
        (2, 9, "b:77")
    ]


def test_what_others_add_to_a_table_survives(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """A column with its values, and an index: changes and a resnapshot keep them. A new type makes another table."""
    world = World(tmp_path, kind=kind)
    destination = taken(world, "a", 1)
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=False)
    table.append(CHUNKS, 1, world_files(world.chunk(OLD, [(1, 1), (2, 2), (3, 3)])))
    destination.publish(EpochEnd(1, "b:1", ""))
    place = database.quoted(kind, schema_of(tmp_path), "t")
    index = f"CREATE INDEX by_note ON {place} (note)"
    database.queried(
        database_address,
        f"ALTER TABLE {place} ADD COLUMN note varchar(20)",
        f"UPDATE {place} SET note = 'mine'",
        *([index] if kind != "duckdb" else []),  # which does not alter a table with an index
    )
    table.append(CHANGES, 2, world_files(world.changes(OLD, [("-U", 1, 1), ("+U", 1, 10), ("+I", 4, 4)])))
    table.begin_copy(WIDER, PLAN, 3, "")
    table.append(CHUNKS, 4, world_files(world.chunk(WIDER, [(1, 10, 5), (2, 2, None), (5, 5, 5)])))
    has_changes = kind == "mysql"  # a new table commits there
    assert len(table_rows(kind, tmp_path)) == 3 + has_changes, "readers have the old rows"
    assert isinstance(table, CompletesCopies)
    table.complete_copy(4)
    destination.publish(EpochEnd(4, "b:1", ""))
    found = database.rows_of(database_address, schema_of(tmp_path), "t", ("id", "v", "w", "note"))
    assert sorted(found) == [(1, 10, 5, "mine"), (2, 2, None, "mine"), (5, 5, 5, None)]
    text = replace(OLD, columns=(ID, Column("v", "varchar", length=80, charset="utf8mb4")))
    table.begin_copy(text, PLAN, 5, "")
    table.append(CHUNKS, 6, world_files(world.chunk(text, [(1, "a")])))
    table.complete_copy(6)
    destination.publish(EpochEnd(6, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, "a")]
    rests = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema_of(tmp_path)}'"
    assert database.queried(database_address, rests) == [("t",)]


def test_a_unique_index_of_others_replaces_no_row(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """The table stops before a row is lost, and continues when the index is gone."""
    world = World(tmp_path, kind=kind)
    destination = taken(world, "a", 1)
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=False)
    table.append(CHUNKS, 1, world_files(world.chunk(OLD, [(1, 1), (2, 2)])))
    destination.publish(EpochEnd(1, "b:1", ""))
    place = database.quoted(kind, schema_of(tmp_path), "t")
    database.queried(database_address, f"CREATE UNIQUE INDEX mine ON {place} (v)")
    part = world_files(world.changes(OLD, [("-U", 2, 2), ("+U", 2, 1)]))
    if kind == "duckdb":
        return  # its tables have no key, and an index of others is an error for DuckDB itself
    with pytest.raises(DestinationError, match="mine"):
        table.append(CHANGES, 2, part)
    destination.publish(EpochEnd(2, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]
    mine = database.quoted(kind, schema_of(tmp_path), "mine") if kind == "postgresql" else f"mine ON {place}"
    database.queried(database_address, f"DROP INDEX {mine}")
    assert table.append(CHANGES, 2, part)
    destination.publish(EpochEnd(2, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 1)]


def _taken_story(folder: Path, kind: Kind) -> tuple[World, Destination, DestinationTable]:
    """A published story, and its table as a runner has opened it."""
    story(world := World(folder, kind=kind))
    publish_story(world, folder, ())
    destination = taken(world, "a", 1)
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    return world, destination, table


@SERVERS
def test_a_runner_that_hangs_in_its_transaction_is_taken_over(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session holds the lock of the term, and is ended. What it had written is rolled back."""
    monkeypatch.setenv(DATABASE, json.dumps({**database_address, "lock_wait_s": 1}))
    world, earlier, table = _taken_story(tmp_path, kind)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    taken(world, "b", 2)
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(2, 2), (3, 3)]


@SERVERS
def test_rows_that_somebody_locks_are_waited_for(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a state of the database, not an error of the table."""
    monkeypatch.setenv(DATABASE, json.dumps({**database_address, "lock_wait_s": 1}))
    world, destination, table = _taken_story(tmp_path, kind)
    part = world_files(world.changes(OLD, [("-U", 2, 2), ("+U", 2, 20)]))
    lock = f"SELECT * FROM {database.quoted(kind, schema_of(tmp_path), 't')} FOR UPDATE"
    timeout = pytest.raises(StoreAwayError, match=r"lock timeout|Lock wait timeout")
    with database.locked(database_address, lock), timeout:
        table.append(CHANGES, 4, part)
    assert table.append(CHANGES, 4, part)
    destination.publish(EpochEnd(4, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(2, 20), (3, 3)]
