"""The contract: what every destination promises to the publisher (`engine.destination.destination_protocol`)."""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DestinationError, MismatchError, PipelineHeldError, SpecError
from engine.destination.capabilities import (
    InspectsCommits,
    KeepsDifferences,
    Maintainable,
    RemembersTables,
    Versioned,
)
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.record_json import change_from_json
from engine.ledger.state import Owner, following
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan
from engine.run.lifecycle.takeover import Takeover
from engine.run.tables.membership import drop_removed
from tests.support import database, kafka, recording_writer
from tests.support.delta import rows_at
from tests.support.no_spark import without_spark
from tests.support.parquet import log_rows, replayed
from tests.unit.destination.support import (
    BROKER,
    DATABASE,
    DATABASES,
    ID,
    OLD,
    OTHER,
    PLAN,
    RANKED,
    WHOLE_SPLIT,
    WIDER,
    Kind,
    W,
    World,
    publish_story,
    resnapshotted,
    schema_of,
    story,
    switch,
    taken,
    topic_rule,
    world_files,
)

Rows = list[tuple[Any, ...]]
KILLS = [(), *((n,) for n in range(1, 6)), range(6)]


@pytest.fixture(params=["delta", "parquet", "python"])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Every destination that needs no server."""
    monkeypatch.setenv(recording_writer.FILE, str(tmp_path / "written.jsonl"))
    without_spark(monkeypatch)
    found: Kind = request.param
    return found


def table_rows(kind: Kind, folder: Path, columns: Sequence[str] = ("id", "v")) -> Rows:
    """The table, as readers of the destination get it."""
    if kind in DATABASES:
        return database_rows(folder, columns)
    if kind == "kafka":
        rows = list(kafka.replayed(kafka_messages(folder)).values())
    elif kind == "python":
        rows = list(recording_writer.replayed_rows(folder / "written.jsonl").values())
    elif kind == "parquet":
        rows = list(replayed(folder / "lake", "d.t", "id").values())
    else:
        rows = rows_at(folder / "lake/d/t").to_pylist()
    return sorted(tuple(row.get(name) for name in columns) for row in rows)


def changes(kind: Kind, folder: Path) -> Rows:
    """The changes of the newest generation: kind, id, v. A database has rows alone: each is an insert."""
    if kind in DATABASES:
        return [("+I", *row) for row in database_rows(folder)]
    if kind == "kafka":
        words = {"c": "+I", "u": "+U", "d": "-D"}
        found = [one.value for one in kafka_messages(folder) if one.value["op"] in words]
        return [(words[one["op"]], *(one["after"] or one["before"]).values())[:3] for one in found]
    if kind == "python":
        rows = [row for row in recording_writer.written(folder / "written.jsonl") if row["_tm_seq"] > 0]
    elif kind == "parquet":
        rows = [row for row in log_rows(folder / "lake", "d.t") if row["_tm_seq"] > 0]
    else:
        rows = rows_at(folder / "lake/d/t__changes").sort_by("_tm_seq").to_pylist()
    return [(row["_tm_kind"], row["id"], row["v"]) for row in rows]


def database_rows(folder: Path, columns: Sequence[str] = ("id", "v")) -> Rows:
    """The rows of the table in a database, as its own client has them."""
    return sorted(database.rows_of(json.loads(os.environ[DATABASE]), schema_of(folder), "t", columns))


def kafka_messages(folder: Path) -> list[kafka.Read]:
    """The messages of the table, of the newest generation."""
    topic = topic_rule(folder).format(database="d", table="t")
    return kafka.newest_generation(kafka.messages(os.environ[BROKER], topic))


@pytest.mark.parametrize("killed", KILLS)
@pytest.mark.parametrize("plan", [PLAN, RANKED], ids=["still", "moving"])
def test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed(
    tmp_path: Path, killed: Sequence[int], plan: Plan, kind: Kind
) -> None:
    """No row of the old copy is left, none is there twice, and each change is in the log once."""
    resnapshotted(world := World(tmp_path, kind=kind), plan=plan)
    publish_story(world, tmp_path, killed)
    assert table_rows(kind, tmp_path) == [(4, 2**40), (5, 50), (6, 60)]
    if kind not in DATABASES:
        assert changes(kind, tmp_path)[-3:] == [("+I", 5, 50), ("-D", 2, 20), ("+I", 6, 60)]
        assert len(set(changes(kind, tmp_path))) == len(changes(kind, tmp_path))


@pytest.mark.parametrize("killed", [(7,), (3, 5, 6), range(8)])
def test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns(
    tmp_path: Path, killed: Sequence[int], kind: Kind
) -> None:
    """The ledger still has its epoch when the next run starts; the change log has later changes, and stays as it is."""
    world = World(tmp_path, kind=kind)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 2, 2)]), resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]), resnapshot=switch(OLD, OTHER))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OTHER, [(1, 1), (2, 2), (3, 3)])], copied=True)
    world.epoch(changes=world.changes(OTHER, [("+I", 4, 2**40)]))
    world.epoch(changes=world.changes(OTHER, [("-D", 1, 1)]))
    publish_story(world, tmp_path, killed)
    assert table_rows(kind, tmp_path) == [(2, 2), (3, 3), (4, 2**40)]
    assert kind in DATABASES or changes(kind, tmp_path)[-2:] == [("+I", 4, 2**40), ("-D", 1, 1)]
    assert kind != "delta" or len(changes(kind, tmp_path)) == 4
    assert not list((tmp_path / "lake" / "d").glob("t__changes__until_*"))


@pytest.mark.parametrize("killed", [(), (3,), range(5)])
def test_a_pipeline_that_copies_nothing_empties_the_table(tmp_path: Path, killed: Sequence[int], kind: Kind) -> None:
    """It resnapshots a table that the source has emptied: no chunk says that the copy is complete."""
    world = World(tmp_path, kind=kind)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(
        changes=world.changes(OLD, [("+I", 3, 3)]),
        resnapshot=switch(OLD, OLD, since={"file": "b.000001", "offset": 6, "gtids": None}),
    )
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    publish_story(world, tmp_path, killed)
    assert table_rows(kind, tmp_path) == [(9, 9)]


@pytest.mark.parametrize("killed", [(), (2,), (3,), (4,), range(5)])
def test_a_column_comes_and_another_one_goes(tmp_path: Path, killed: Sequence[int], kind: Kind) -> None:
    """Rows from before have NULL in a new column."""
    world = World(tmp_path, kind=kind)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]), altered=switch(OLD, WIDER))
    narrow = replace(OLD, columns=(ID, W))
    world.epoch(changes=world.changes(WIDER, [("+I", 4, 4, 40)]), altered=switch(WIDER, narrow))
    world.epoch(changes=world.changes(narrow, [("+I", 5, 50)]))
    publish_story(world, tmp_path, killed)
    expected = [(1, 1, None), (2, 2, None), (3, 3, None), (4, 4, 40), (5, None, 50)]
    assert table_rows(kind, tmp_path, ("id", "v", "w")) == expected


def test_an_epoch_that_is_applied_again_changes_nothing(tmp_path: Path, kind: Kind) -> None:
    """By another process too, which knows what the destination says."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    before = changes(kind, tmp_path)
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    part = world.changes(OLD, [("+I", 9, 9)])
    assert table.append(CHANGES, 3, world_files(part)) is None
    destination.publish(EpochEnd(3, "b:1", ""))
    assert changes(kind, tmp_path) == before
    assert (table.last_epoch(CHUNKS), table.last_epoch(CHANGES)) == (1, 3)


def test_what_is_not_published_is_not_seen(tmp_path: Path, kind: Kind) -> None:
    """A destination that commits all tables at once shows nothing before; each one shows it afterwards."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    if kind not in ("delta", "python"):
        assert ("+I", 9, 9) not in changes(kind, tmp_path)
        assert world.destination().table(Owner("L"), OLD).last_epoch(CHANGES) == 3
    destination.publish(EpochEnd(4, "b:1", ""))
    assert ("+I", 9, 9) in changes(kind, tmp_path)
    assert world.destination().table(Owner("L"), OLD).last_epoch(CHANGES) == 4


def test_an_earlier_term_writes_nothing_more(tmp_path: Path, kind: Kind) -> None:
    """Not even what it has prepared: the later runner has fenced the destination."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    files = world_files(world.changes(OLD, [("+I", 9, 9)]))
    before = changes(kind, tmp_path)
    later = taken(world, "b", 2)
    later.fence_earlier_runners(Owner("L"), [OLD], range(5))
    with pytest.raises(PipelineHeldError):
        table.append(CHANGES, 4, files)
    with pytest.raises(PipelineHeldError):
        earlier.terms.check()
    assert changes(kind, tmp_path) == before


def test_a_runner_that_is_delayed_after_its_check_publishes_nothing(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has checked its term, and then sleeps; the later runner has taken the name that it would commit."""
    if kind == "python":
        pytest.skip("what a function of somebody else writes cannot be fenced, as docs/destinations.md says")
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    before = changes(kind, tmp_path)
    files = world_files(world.changes(OLD, [("+I", 9, 9)]))
    if kind == "parquet":
        table.append(CHANGES, 4, files)
    overtaken = [False]
    original = os.link

    def late(source: Any, target: Any, **more: Any) -> None:
        if not overtaken[0]:
            overtaken[0] = True
            taken(world, "b", 2).fence_earlier_runners(Owner("L"), [OLD], range(5))
        original(source, target, **more)

    monkeypatch.setattr(os, "link", late)

    def act() -> None:
        if kind == "parquet":
            earlier.publish(EpochEnd(4, "b:1", ""))
        else:
            table.append(CHANGES, 4, files)

    with pytest.raises(PipelineHeldError):
        act()
    assert overtaken[0]
    assert changes(kind, tmp_path) == before


def test_another_ledger_is_refused(tmp_path: Path, kind: Kind) -> None:
    """Two pipelines do not mix their rows."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    taken(world, "a", 1)
    other = world.destination().table(Owner("another"), OLD, PLAN)
    with pytest.raises(SpecError, match="exists already"):
        other.check(None, OLD)
    with pytest.raises(SpecError, match="does not belong to this pipeline's ledger"):
        other.open(must_exist=False)
    other.drop()
    assert table_rows(kind, tmp_path) == [(2, 2), (3, 3)], "it deletes nothing either"


@pytest.mark.parametrize("applied", [{"chunks": 1, "changes": 3}, {"chunks": -1, "changes": -1}])
def test_a_table_that_is_gone_is_not_begun_again_in_silence(
    tmp_path: Path, kind: Kind, applied: dict[str, int]
) -> None:
    """The ledger has published rows to it, whether or not it knows that they were applied."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    shutil.rmtree(tmp_path / ("lake/_progress" if kind == "python" else "lake/d"))
    table = world.destination().table(Owner("L"), OLD, PLAN)
    assert "is gone" in table.read_state().fault
    with pytest.raises(DestinationError, match="is gone"):
        table.open(must_exist=True)
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    ledger.commit(replace(following(ledger.state, "r", {}), applied={"d.t": applied}))
    with pytest.raises(MismatchError, match="is not what the ledger has published"):
        Takeover(world.destination(), "b").take(ledger, frozenset(), everything=False)


@pytest.mark.parametrize("given_up", [False, True])
def test_what_an_operator_gave_up_is_not_missed(tmp_path: Path, kind: Kind, given_up: bool) -> None:
    """A run was killed between the resnapshot that replaces a lost table and the table's first row."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    ledger.commit(replace(following(ledger.state, "r", {}), applied={"d.t": {"chunks": 1, "changes": 3}}))
    shutil.rmtree(tmp_path / ("lake/_progress" if kind == "python" else "lake/d"))
    begun = change_from_json({"resnapshot": switch(OLD, WIDER) | ({"given_up": True} if given_up else {})})
    ledger.commit(following(ledger.state, "r", {"d.t": begun}))
    run = Takeover(world.destination(), "b")
    if not given_up:  # an ALTER began it: nobody has agreed to lose the change log
        with pytest.raises(MismatchError, match="is not what the ledger has published"):
            run.take(Ledger(tmp_path / "ledger"), frozenset(), everything=False)
        return
    run.take(Ledger(tmp_path / "ledger"), frozenset(), everything=False)
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, Journal(tmp_path / "j.jsonl", "r"))
    publisher.tables.open_all(ledger.state)
    assert not publisher.tables.failed_tables()


def test_a_table_that_is_gone_is_opened_for_a_copy(tmp_path: Path, kind: Kind) -> None:
    """What is lost is given up, and the change log begins with the columns of the copy."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, ())
    shutil.rmtree(tmp_path / ("lake/_progress" if kind == "python" else "lake/d"))
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    opened = table.open(must_exist=False, copied_as=WIDER)
    assert (opened.is_new, table.table) == (True, WIDER)
    table.begin_copy(WIDER, PLAN, 4, "2026-01-01T00:00:00Z")
    destination.publish(EpochEnd(4, "b:1", ""))
    assert not table.read_state().fault
    assert table.append(CHANGES, 5, world_files(world.changes(WIDER, [("+I", 7, 7, 7)])))
    destination.publish(EpochEnd(5, "b:1", ""))
    assert changes(kind, tmp_path)[-1:] == [("+I", 7, 7)]


def test_what_a_destination_cannot_do_is_absent(tmp_path: Path, kind: Kind) -> None:
    """The publisher and the commands ask for the capability, so nothing is imitated."""
    destination = World(tmp_path, kind=kind).destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    of_tables = [isinstance(table, one) for one in (Maintainable, Versioned, InspectsCommits)]
    of_destination = [isinstance(destination, one) for one in (RemembersTables, KeepsDifferences)]
    assert {*of_tables, *of_destination, table.mirror is not None} == {kind == "delta"}


@pytest.mark.parametrize("killed", [(), (4,), (5,), range(7)])
def test_a_failed_table_is_repaired_by_a_resnapshot(tmp_path: Path, killed: Sequence[int], kind: Kind) -> None:
    """A file of a reader was lost: the table alone fails, and is right after the new copy."""
    story(world := World(tmp_path, kind=kind))
    (lost,) = world.records[3].tables["d.t"].change_files
    world.epoch(resnapshot=switch(OLD, OTHER))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OTHER, [(2, 2), (3, 3), (9, 2**40)])], copied=True)
    world.epoch(changes=world.changes(OTHER, [("-D", 2, 2)]))
    landing = world.destination().landing
    landing.changes(OLD).delete([lost["name"]])
    publish_story(world, tmp_path, killed)
    assert table_rows(kind, tmp_path) == [(3, 3), (9, 2**40)]


def test_a_failed_table_fails_alone_and_stays_as_it_was(tmp_path: Path, kind: Kind) -> None:
    """The publisher continues, and names it."""
    story(world := World(tmp_path, kind=kind))
    (lost,) = world.records[2].tables["d.t"].change_files
    world.destination().landing.changes(OLD).delete([lost["name"]])
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "r")
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal)
    ledger.commit(world.records[0])
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    for record in world.records[1:]:
        ledger.commit(record)
        publisher.submit(record)
    publisher.finish()
    journal.close()
    assert lost["name"] in str(publisher.tables.failed_tables()["d.t"])
    assert table_rows(kind, tmp_path) == [(1, 1), (2, 2)]


def test_a_table_that_was_dropped_leaves_nothing(tmp_path: Path, kind: Kind) -> None:
    """It can join again, and has then nothing of before."""
    story(world := World(tmp_path, kind=kind))
    world.epoch(removed={"by": None, "drop": True})
    publish_story(world, tmp_path, ())
    ledger = Ledger(tmp_path / "ledger")
    drop_removed(world.destination(), ledger, "r")
    assert not (tmp_path / "lake/d/t").exists()
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.check(None, OLD)
    assert table.open(must_exist=False).applied_epochs[CHANGES] == -1
    assert table.append(CHANGES, 9, world_files(world.changes(OLD, [("+I", 7, 7)])))
    destination.publish(EpochEnd(9, "b:1", ""))
    assert changes(kind, tmp_path)[-1:] == [("+I", 7, 7)]
    assert kind == "python" or len(changes(kind, tmp_path)) == 1, "what a function has made of the rows stays"


def test_orphans_are_deleted_and_nothing_else(tmp_path: Path, kind: Kind) -> None:
    """Files that a killed run wrote and no commit named."""
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, (2,))
    before = table_rows(kind, tmp_path)
    paths: Callable[[], set[Path]] = lambda: set((tmp_path / "lake").glob("d/**/*.parquet"))  # noqa: E731
    committed = paths()
    (orphan,) = files = world_files(world.changes(OLD, [("+I", 9, 9)]))
    if kind == "parquet":  # killed before it published
        world.destination().table(Owner("L"), OLD, PLAN).append(CHANGES, 4, files)
        assert len(paths()) == len(committed) + 1
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    folder = destination.landing.changes(OLD)
    assert folder.find(orphan.name) is not None
    foreign = tmp_path / "lake/d/t/date=2026-01-01/hour=00/mine.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"")
    committed.add(foreign)
    parts = [part for record in world.records for part in record.tables["d.t"].written]
    named = {file["name"] for part in parts for file in part.files}
    last_ns = 0 if kind == "delta" else time.time_ns() + 10**12  # a killed run may have committed after it wrote
    assert destination.delete_orphans([table], named, last_ns) >= 1
    assert folder.find(orphan.name) is None
    assert paths() == committed
    assert table_rows(kind, tmp_path) == before
