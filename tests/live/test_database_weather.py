"""Databases as destinations, where somebody or something gets in the way."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DestinationError, PipelineHeldError, SpecError
from engine.base.store_errors import StoreAwayError
from engine.decode.schema import Column, Table
from engine.destination.capabilities import CompletesCopies
from engine.destination.database import table as table_module
from engine.destination.database.database_state import DatabaseState
from engine.destination.database.side_effects import side_effects
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from engine.run.lifecycle.destination_check import check_destination
from tests.live.support.known_positions import ServerFactory
from tests.support import database
from tests.unit.destination.support import (
    DATABASE,
    ID,
    OLD,
    PLAN,
    WHOLE_SPLIT,
    WIDER,
    Kind,
    V,
    World,
    publish_story,
    schema_of,
    switch,
    taken,
    wait_for,
    world_files,
)
from tests.unit.destination.test_contract import table_rows

POSTGRESQL, MYSQL, DUCKDB, SERVERS = (
    pytest.mark.parametrize("database_address", names, indirect=True)
    for names in (["postgresql"], ["mysql", "mariadb"], ["duckdb"], ["postgresql", "mysql", "mariadb"])
)


@pytest.fixture
def kind(database_kind: Kind) -> Kind:
    """This destination."""
    return database_kind


def _opened(world: World, run: str = "a", number: int = 1, table: Table = OLD) -> tuple[Any, Any]:
    """A destination that a runner has taken, and its table."""
    destination = taken(world, run, number)
    made = destination.table(Owner("L"), table, PLAN)
    made.open(must_exist=False)
    return destination, made


def _first(world: World, table: Table = OLD, rows: Any = ((1, 1), (2, 2))) -> tuple[Any, Any]:
    """The same with its first copy."""
    destination, made = _opened(world, table=table)
    made.append(CHUNKS, 1, world_files(world.chunk(table, rows)))
    made.complete_copy(1)
    destination.publish(EpochEnd(1, "b:1", ""))
    return destination, made


@pytest.mark.parametrize("since", [2, 3, 4])
def test_readers_have_the_old_rows_until_a_copy_is_complete(tmp_path: Path, kind: Kind, since: int) -> None:
    """Whatever is applied again by a run that starts in between: the first copy was completed before."""
    world = World(tmp_path, kind=kind)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]), resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT)
    world.epoch(chunks=[world.chunk(OLD, [(7, 7)])])
    world.records = world.records[: since + 1]
    publish_story(world, tmp_path, ())
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "s")
    for _ in range(2):
        publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
        assert ledger.state is not None
        publisher.tables.open_all(ledger.state)
        publisher.recover()
        publisher.finish()
        assert not publisher.tables.failed_tables()
        assert table_rows(kind, tmp_path) == [(1, 1), (2, 2), (3, 3)]
    journal.close()


def _text(length: int, *more: Column) -> Table:
    return replace(OLD, columns=(ID, Column("v", "varchar", length=4 * length, charset="utf8mb4"), *more))


def test_alterations_are_applied_again(tmp_path: Path, kind: Kind) -> None:
    """By a run that starts after the second one: the table has wider columns than the first one says."""
    destination, table = _first(World(tmp_path, kind=kind), _text(10), [(1, "a")])
    w = Column("w", "int")
    for _ in range(2):
        table.alter(_text(10, w), 2, copy_follows=False)
        table.alter(_text(20, w), 3, copy_follows=False)
        destination.publish(EpochEnd(3, "b:1", ""))
        destination = World(tmp_path, kind=kind).destination()
        table = destination.table(Owner("L"), _text(20, w), PLAN)
    assert table_rows(kind, tmp_path, ("id", "v", "w")) == [(1, "a", None)]
    for _ in range(2):
        table.alter(_text(20, w), 3, copy_follows=False)
        table.begin_copy(OLD, PLAN, 4, "")
        destination.publish(EpochEnd(4, "b:1", ""))
    table.append(CHUNKS, 5, world_files(World(tmp_path, kind=kind).chunk(OLD, [(1, 11)])))
    table.complete_copy(5)
    destination.publish(EpochEnd(5, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 11)]


def test_a_wider_key_distinguishes_what_it_did(tmp_path: Path, kind: Kind) -> None:
    """By case, and by blanks at the end."""

    def keyed(length: int) -> Table:
        return replace(OLD, columns=(Column("id", "varchar", nullable=False, length=4 * length, charset="utf8mb4"), V))

    world = World(tmp_path, kind=kind)
    destination, table = _first(world, keyed(10), [("a", 1)])
    table.alter(keyed(20), 2, copy_follows=False)
    changes_ = [("+I", "A", 2), ("+I", "a ", 3)]
    table.append(CHANGES, 3, world_files(world.changes(keyed(20), changes_)))
    destination.publish(EpochEnd(3, "b:1", ""))
    assert table_rows(kind, tmp_path) == [("A", 2), ("a", 1), ("a ", 3)]


def test_tables_of_others_with_like_names_stay(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """Beside a table that is resnapshotted, replaced and dropped."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    schema = schema_of(tmp_path)
    others = [f"t__tm_{word}" for word in ("copy", "old")]
    for name in others:
        database.queried(database_address, f"CREATE TABLE {database.quoted(kind, schema, name)} (x int)")
    destination.table(Owner("L"), replace(OLD, name="t__tm_copy2"), PLAN).open(must_exist=False)
    for epoch, version in ((2, OLD), (4, _text(10))):
        table.begin_copy(version, PLAN, epoch, "")
        table.append(CHUNKS, epoch + 1, world_files(world.chunk(version, [(5, 5 if version is OLD else "x")])))
        table.complete_copy(epoch + 1)
        destination.publish(EpochEnd(epoch + 1, "b:1", ""))
    table.drop()
    for name in (*others, "t__tm_copy2"):
        assert database.queried(database_address, f"SELECT * FROM {database.quoted(kind, schema, name)}") == []


def test_a_table_that_appears_meanwhile_is_not_adopted(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one makes it between the look and the CREATE: it is refused then, and ever after."""
    schema = schema_of(tmp_path)
    create = "DATABASE" if kind == "mysql" else "SCHEMA"
    place = database.quoted(kind, schema, "t")
    database.queried(
        database_address, f"CREATE {create} {database.quoted(kind, schema)}", f"CREATE TABLE {place} (id int, v int)"
    )
    world = World(tmp_path, kind=kind)
    with monkeypatch.context() as patch:
        patch.setattr(table_module, "require_place", lambda *_: None)
        with pytest.raises(DestinationError, match="exist"):
            _opened(world)
    with pytest.raises(SpecError, match="has not made it"):
        _opened(world, "b", 2)
    taken(world, "c", 3).table(Owner("L"), OLD, PLAN).drop()
    assert database.queried(database_address, f"SELECT * FROM {place}") == []


def test_a_table_whose_maker_was_killed_is_made_again(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its record was there."""
    world = World(tmp_path, kind=kind)
    with monkeypatch.context() as patch:
        patch.setattr(DatabaseState, "write_table", _kill)
        with pytest.raises(database.Killed):
            _opened(world)
    _, table = _opened(world, "b", 2)
    assert table.is_there


def _kill(*_: Any) -> None:
    raise database.Killed


@MYSQL
def test_another_primary_key_stops_the_table(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """On MySQL, where an update would double the row."""
    world = World(tmp_path, kind=kind)
    _, table = _first(world)
    place = database.quoted(kind, schema_of(tmp_path), "t")
    database.queried(
        database_address,
        f"ALTER TABLE {place} ADD part int NOT NULL DEFAULT 0, DROP PRIMARY KEY, ADD PRIMARY KEY (id, part)",
    )
    part = world_files(world.changes(OLD, [("-U", 1, 1), ("+U", 1, 10)]))
    with pytest.raises(DestinationError, match=r"another primary key than \(id\)"):
        table.append(CHANGES, 2, part)
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]


def test_a_copy_that_somebody_drops_is_not_complete(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """Readers keep the old rows, and the table stops."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    table.begin_copy(OLD, PLAN, 2, "")
    table.append(CHUNKS, 3, world_files(world.chunk(OLD, [(5, 5)])))
    destination.publish(EpochEnd(3, "b:1", ""))
    names = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema_of(tmp_path)}'"
    (copy,) = [name for (name,) in database.queried(database_address, names) if "__tm_copy" in name]
    database.queried(database_address, f"DROP TABLE {database.quoted(kind, schema_of(tmp_path), copy)}")
    with pytest.raises(DestinationError, match="is gone"):
        table.complete_copy(4)
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]
    table.begin_copy(OLD, PLAN, 5, "")
    table.append(CHUNKS, 6, world_files(world.chunk(OLD, [(6, 6)])))
    table.complete_copy(6)
    destination.publish(EpochEnd(6, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(6, 6)]


def test_a_part_that_fails_when_it_is_run_again_fails_alone(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """The session was lost, and one of the tables with it; the other one is committed before its error is raised."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    other = replace(OLD, name="u")
    second = destination.table(Owner("L"), other, PLAN)
    second.open(must_exist=False)
    table.append(CHANGES, 2, world_files(world.changes(OLD, [("+I", 3, 3)])))
    second.append(CHANGES, 2, world_files(world.changes(other, [("+I", 8, 8)])))
    destination._transaction._session.connection.close()
    database.queried(database_address, f"DROP TABLE {database.quoted(kind, schema_of(tmp_path), 't')}")
    with pytest.raises(DestinationError):
        destination.publish(EpochEnd(2, "b:1", ""))
    assert database.rows_of(database_address, schema_of(tmp_path), "u", ("id", "v")) == [(8, 8)]
    second.append(CHANGES, 3, world_files(world.changes(other, [("+I", 9, 9)])))
    actions: list[Callable[[], object]] = [
        lambda: table.append(CHANGES, 3, world_files(world.changes(OLD, [("+I", 4, 4)]))),
        lambda: table.alter(WIDER, 3, copy_follows=False),
        lambda: destination.publish(EpochEnd(3, "b:1", "")),
    ]
    for action in actions:
        with pytest.raises(DestinationError):
            action()
    assert len(database.rows_of(database_address, schema_of(tmp_path), "u", ("id", "v"))) == 2
    table.open(must_exist=False, copied_as=OLD)
    table.append(CHUNKS, 5, world_files(world.chunk(OLD, [(5, 5)])))
    destination.publish(EpochEnd(5, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(5, 5)]


@POSTGRESQL
def test_a_deferred_constraint_stops_its_table_alone(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """It would fail with the commit of all tables."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    schema = schema_of(tmp_path)
    child = f'CREATE TABLE "{schema}".child (id int REFERENCES "{schema}".t (id) DEFERRABLE INITIALLY DEFERRED)'
    database.queried(database_address, child, f'INSERT INTO "{schema}".child VALUES (1)')
    with pytest.raises(DestinationError, match="foreign key"):
        table.append(CHANGES, 2, world_files(world.changes(OLD, [("-D", 1, 1)])))
    destination.publish(EpochEnd(2, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]


def test_a_column_of_others_is_not_taken_for_the_sources(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """The source gets a column of the same name: its rows have NULL there, not what somebody else has written."""
    world = World(tmp_path, kind=kind)
    _, table = _first(world)
    place = database.quoted(kind, schema_of(tmp_path), "t")
    database.queried(database_address, f"ALTER TABLE {place} ADD COLUMN w int", f"UPDATE {place} SET w = 77")
    with pytest.raises(DestinationError, match="column 'w' that the pipeline has not made"):
        table.alter(WIDER, 2, copy_follows=False)
    database.queried(database_address, f"ALTER TABLE {place} DROP COLUMN w")
    table.alter(WIDER, 2, copy_follows=False)


@SERVERS
def test_two_runners_that_take_a_new_database_at_once(tmp_path: Path, kind: Kind) -> None:
    """One has it, and the other one is refused as at any other time."""
    world = World(tmp_path, kind=kind)
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(taken, world, run, 1) for run in ("a", "b")]
    errors = [one.exception() for one in results]
    assert sorted(type(one).__name__ for one in errors) == ["NoneType", "PipelineHeldError"]


@SERVERS
def test_a_definition_that_hangs_is_ended_by_a_later_runner(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """A reader keeps the table from being altered; nothing of it happens once the later runner has the term."""
    world = World(tmp_path, kind=kind)
    _, table = _first(world)
    place = database.quoted(kind, schema_of(tmp_path), "t")
    with ThreadPoolExecutor(1) as pool, database.locked(database_address, f"SELECT * FROM {place}"):
        altering = pool.submit(table.alter, WIDER, 2, copy_follows=False)
        wait_for(lambda: database.waits(database_address, "ALTER"))
        later = taken(world, "b", 2)
        assert isinstance(altering.exception(), PipelineHeldError)
    again = later.table(Owner("L"), OLD, PLAN)
    again.open(must_exist=True)
    again.alter(WIDER, 2, copy_follows=False)
    later.publish(EpochEnd(2, "b:1", ""))
    assert table_rows(kind, tmp_path, ("id", "v", "w")) == [(1, 1, None), (2, 2, None)]


@SERVERS
def test_triggers_and_foreign_keys_are_named(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """Those on tables of pipelines, and no others."""
    world = World(tmp_path, kind=kind)
    _first(world)
    sink, schema = world.sink(0.0).model_copy(update={"path": "x://"}), schema_of(tmp_path)
    place, child = (database.quoted(kind, schema, name) for name in ("t", "child"))
    database.queried(
        database_address,
        f"CREATE TABLE {child} (id int, CONSTRAINT {schema}_fk FOREIGN KEY (id) REFERENCES {place} (id))",
    )
    if kind == "postgresql":
        function = f"{database.quoted(kind, schema, 'f')}()"
        database.queried(
            database_address,
            f"CREATE FUNCTION {function} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            f"CREATE TRIGGER {schema}_tr BEFORE INSERT ON {place} FOR EACH ROW EXECUTE FUNCTION {function}",
            f"CREATE TRIGGER other BEFORE INSERT ON {child} FOR EACH ROW EXECUTE FUNCTION {function}",
        )
    else:
        trigger = database.quoted(kind, schema, f"{schema}_tr")
        database.queried(
            database_address, f"CREATE TRIGGER {trigger} BEFORE INSERT ON {place} FOR EACH ROW SET NEW.v = NEW.v"
        )
    found = [one for one in side_effects(sink) if schema in one]
    assert sorted(found) == [f"foreign key {schema}_fk on {schema}.t", f"trigger {schema}_tr on {schema}.t"]
    check = check_destination(world.sink(0.0).model_copy(update={"path": f"{kind}://x"}))
    assert check.outcome == "warn"
    assert f"trigger {schema}_tr on {schema}.t" in check.actual


def test_files_of_an_earlier_copy_are_not_for_the_next_one(tmp_path: Path, kind: Kind) -> None:
    """The first copy was refused; a run that starts during the second one has its files, too."""
    world = World(tmp_path, kind=kind)
    destination, table = _opened(world)
    table.begin_copy(OLD, PLAN, 2, "")
    destination.publish(EpochEnd(2, "b:1", ""))
    again = taken(world, "b", 2).table(Owner("L"), OLD, PLAN)
    again.open(must_exist=True)
    assert again.append(CHUNKS, 1, world_files(world.chunk(OLD, [(1, 1), (2, 2)]))) is None
    assert again.append(CHUNKS, 2, world_files(world.chunk(OLD, [(3, 3)]))), "rows that are read back have its epoch"


def test_the_order_of_key_columns_may_change(tmp_path: Path, kind: Kind) -> None:
    """By a resnapshot: the key is the same."""
    world = World(tmp_path, kind=kind)
    both = replace(OLD, columns=(ID, Column("v", "int", nullable=False)), key=("id", "v"))
    destination, table = _first(world, both)
    turned = replace(both, key=("v", "id"))
    table.begin_copy(turned, PLAN, 2, "")
    table.append(CHUNKS, 3, world_files(world.chunk(turned, [(7, 8)])))
    table.complete_copy(3)
    destination.publish(EpochEnd(3, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(7, 8)]


def test_what_a_copy_leaves_is_dropped_after_a_kill(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is no proof of a later copy."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    table.begin_copy(_text(10), PLAN, 2, "")
    table.append(CHUNKS, 3, world_files(world.chunk(_text(10), [(6, "y")])))
    with monkeypatch.context() as patch:
        patch.setattr(table_module.DatabaseTable, "_without_leftovers", _kill)
        with pytest.raises(database.Killed):
            table.complete_copy(3)
        destination.publish(EpochEnd(3, "b:1", ""))
    later = taken(world, "b", 2)
    table = later.table(Owner("L"), _text(10), PLAN)
    table.open(must_exist=True)
    assert isinstance(table, CompletesCopies)
    table.complete_copy(3)
    later.publish(EpochEnd(3, "b:1", ""))
    names = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema_of(tmp_path)}'"
    assert database.queried(database_address, names) == [("t",)]
    assert table_rows(kind, tmp_path) == [(6, "y")]


def test_a_later_part_is_refused_with_the_rejected_one(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """The session is lost, and the next part of the same table runs the earlier one again: neither is written."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    table.append(CHANGES, 2, world_files(world.changes(OLD, [("+I", 3, 300)])))
    later = world_files(world.changes(OLD, [("+I", 4, 4)]))
    destination._transaction._session.connection.close()
    step = destination._transaction._steps[0][1]

    def refused(session: Any) -> int:
        step(session)
        raise DestinationError("not any more")

    destination._transaction._steps = [("d.t", refused)]
    with pytest.raises(DestinationError, match="not any more"):
        table.append(CHANGES, 3, later)
    with pytest.raises(DestinationError, match="not any more"):
        destination.publish(EpochEnd(3, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]
    again = taken(world, "b", 2)
    assert again.table(Owner("L"), OLD, PLAN).last_epoch(CHANGES) == -1, "both are applied again"


@POSTGRESQL
def test_a_view_keeps_a_table_from_being_replaced(tmp_path: Path, kind: Kind, database_address: dict[str, Any]) -> None:
    """By a copy with another type. Readers of both have the old rows until the view is gone."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    schema = schema_of(tmp_path)
    database.queried(database_address, f'CREATE VIEW "{schema}".seen AS SELECT * FROM "{schema}".t')
    table.begin_copy(_text(10), PLAN, 2, "")
    table.append(CHUNKS, 3, world_files(world.chunk(_text(10), [(5, "x")])))
    with pytest.raises(DestinationError, match="other objects depend on it"):
        table.complete_copy(3)
    destination.publish(EpochEnd(3, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]
    database.queried(database_address, f'DROP VIEW "{schema}".seen')
    table.complete_copy(3)
    destination.publish(EpochEnd(3, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(5, "x")]


@DUCKDB
def test_other_processes_read_a_file_between_two_epochs(
    tmp_path: Path, kind: Kind, database_address: dict[str, Any]
) -> None:
    """While one has it open, the pipeline waits."""
    world = World(tmp_path, kind=kind)
    destination, table = _first(world)
    code = (
        f"import duckdb, sys; c = duckdb.connect({database_address['file']!r}, read_only=True); "
        f"print(c.sql('SELECT count(*) FROM {schema_of(tmp_path)}.t').fetchall()[0][0], flush=True); sys.stdin.read()"
    )
    reader = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "2\n"
    part = world_files(world.changes(OLD, [("+I", 3, 3)]))
    with pytest.raises(StoreAwayError, match="Could not set lock"):
        table.append(CHANGES, 2, part)
    reader.communicate()
    assert table.append(CHANGES, 2, part)
    destination.publish(EpochEnd(2, "b:1", ""))
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_old_defaults_of_a_server_change_nothing(
    flavor: str, private_server: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine without transactions, and TIMESTAMP columns that an update sets to the time of the update."""
    server = private_server(flavor, default_storage_engine="MyISAM", explicit_defaults_for_timestamp=0)
    server.execute("CREATE DATABASE state")
    own = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "state"}
    monkeypatch.setenv(DATABASE, json.dumps(own))
    at = datetime(2020, 1, 2, tzinfo=UTC)
    table = replace(OLD, columns=(Column("id", "timestamp", nullable=False), V))
    world = World(tmp_path, kind="mysql")
    destination, made = _first(world, table, [(at, 1)])
    made.append(CHANGES, 2, world_files(world.changes(table, [("-U", at, 1), ("+U", at, 2)])))
    assert table_rows("mysql", tmp_path) == [(at.replace(tzinfo=None), 1)], "readers see nothing before the commit"
    destination.publish(EpochEnd(2, "b:1", ""))
    assert table_rows("mysql", tmp_path) == [(at.replace(tzinfo=None), 2)]
