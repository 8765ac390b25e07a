"""Runs of a pipeline with a Delta lake and Parquet files beside it, and what may happen to them."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from engine.destination.epoch_retention import EpochRetention
from engine.destination.freshness import CommitTimes
from engine.destination.further_sink import FurtherSink
from engine.destination.publisher import Publisher
from engine.destination.registry import further_destination
from engine.destination.sink_opening import sink_changes
from engine.journal import Journal
from engine.ledger.record_json import change_from_json, state_to_json
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.pipeline import formats
from engine.run.tables.membership import drop_removed
from engine.spec.sink_settings import Sink
from tests.support.delta import rows_at
from tests.support.parquet import replayed
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, Rows, World, story, wait_for

U = replace(OLD, name="u")
U_JOINS = {"planned": {"table": U.as_dict(), "plan": replace(PLAN, table="d.u").as_dict()}}


class Run:
    """A run of a pipeline with a Delta lake and Parquet files, or another sink."""

    def __init__(
        self,
        folder: Path,
        world: World,
        *,
        sink: Sink | None = None,
        is_paused: Callable[[], bool] = lambda: False,
        **settings: Any,
    ) -> None:
        """sink: by default, Parquet files with these settings, named "files"."""
        self.ledger, self.journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
        if self.ledger.state is None:
            self.ledger.commit(world.records[0])
        self.ledger.take_term("r", self.state.term + 1)
        self.first = destination = world.destination()
        self.sink = sink or Sink(type="parquet", name="files", path=folder / "files", **settings)
        self.retention = EpochRetention(self.ledger, destination.landing)
        if changes := sink_changes(self.state, {self.sink.name: self.sink}, list(self.ledger.kept_epochs())):
            self.ledger.commit(replace(following(self.state, "r", {}), sinks=changes))
        self.errors: list[BaseException | None] = []
        self.further = FurtherSink(
            self.sink,
            lambda: further_destination(self.sink, destination),
            destination,
            self.ledger,
            self.journal,
            self.retention,
            lambda _, error: self.errors.append(error),
            is_paused,
        )
        more = (self.retention, [self.further])
        self.publisher = Publisher(world.sink(0.0), destination, self.ledger, self.journal, lambda s: s(), *more)
        self.publisher.tables.open_all(self.state)
        self.publisher.recover()

    @property
    def state(self) -> State:
        """The committed state."""
        assert self.ledger.state is not None
        return self.ledger.state

    def commit(self, records: Sequence[EpochRecord], commits: CommitTimes | None = None) -> None:
        """Commit epochs as a coordinator does, numbered after those that are there.

        commits: when their changes were committed on the source, one of each table.
        """
        for one in records:
            through, facts = self.publisher.facts
            news = self.further.news(self.state)
            number = self.state.epoch + 1
            sinks = {self.sink.name: news} if news else {}
            record = replace(one, epoch=number, applied={n: dict(f) for n, f in facts.items()}, sinks=sinks)
            self.ledger.commit(record)
            self.publisher.record_through(through)
            self.publisher.submit(record, commits, dict.fromkeys(record.tables, 1))

    def end(self, *, drains: bool = True) -> None:
        """End the run."""
        self.publisher.finish(drains=drains)
        self.journal.close()


def why_stopped(run: Run) -> str:
    """Why the ledger gives the further sink nothing any more; "" if it does."""
    stopped = run.state.sinks["files"].stopped
    return stopped.message if stopped else ""


def files(folder: Path) -> list[tuple[Any, ...]]:
    """The table by the Parquet files."""
    return sorted((row["id"], row["v"]) for row in replayed(folder / "files", "d.t", "id").values())


def first_alone(folder: Path, world: World) -> None:
    """A run without further sinks, which leaves the ledger no epochs."""
    ledger, journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
    ledger.commit(world.records[0])
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal)
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    for record in world.records[1:]:
        ledger.commit(record)
        publisher.submit(record)
    publisher.finish()
    journal.close()
    prune_through(folder, ledger)


def prune_through(folder: Path, ledger: Ledger) -> None:
    """Replace the ledger's epochs by a full state."""
    assert ledger.state is not None
    full = formats.stamped("state", state_to_json(ledger.state))
    (folder / "ledger" / f"state-{ledger.state.epoch:08d}.json").write_text(json.dumps(full))
    for path in (folder / "ledger").glob("epoch-*.json"):
        path.unlink()


@dataclass(frozen=True)
class Gate:
    """Holds calls until it opens."""

    entered: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    def before(self, function: Callable[..., Any], holds: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
        """The function, held. holds: whether a call with these arguments is."""

        def held(*arguments: Any) -> Any:
            if holds(*arguments):
                self.entered.set()
                assert self.open.wait(30)
            return function(*arguments)

        return held


def of_u(world: World, **change: Any) -> EpochRecord:
    """An epoch of another table."""
    world.epoch(**change)
    record = world.records.pop()
    return replace(record, tables={"d.u": record.tables["d.t"]})


def story_with_u(world: World) -> None:
    """The story, with another table of one row."""
    story(world)
    copied: Any = {"split": WHOLE_SPLIT, "chunks": [world.chunk(U, [(1, 1)])], "copied": True}
    for n, change in enumerate((U_JOINS, copied)):
        record = world.records[n]
        world.records[n] = replace(record, tables={**record.tables, "d.u": change_from_json(change)})


def insert(run: Run, world: World, *keys: int) -> None:
    """Commit an epoch for each of some new rows."""
    for key in keys:
        world.epoch(changes=world.changes(OLD, [("+I", key, key)]))
        run.commit(world.records[-1:])


def follow(run: Run, records: Sequence[Any] = ()) -> None:
    """Commit epochs, each after both sinks have the one before."""
    for record in (*records, None):
        run.publisher.drain()
        assert wait_for(lambda: run.further.through == run.state.epoch)
        if record is not None:
            run.commit([record])
    follow(run) if records else None


def drop(run: Run, world: World) -> None:
    """Remove the table, and delete its data in the lake."""
    world.epoch(removed={"by": None, "drop": True})
    run.commit(world.records[-1:])
    run.publisher.drain()
    drop_removed(run.first, run.ledger, "r")
    run.publisher.submit(run.ledger.epoch(run.state.epoch))


def add(run: Run, world: World, rows: Rows, table: Any = OLD) -> None:
    """Let the table join again."""
    world.epoch(planned={"table": table.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(table, rows)], copied=True)
    run.commit(world.records[-2:])


def block(folder: Path) -> None:
    """Put a file in the place of the sink's folder."""
    if (folder / "files").exists():
        (folder / "files").rename(folder / "kept")
    (folder / "files").write_text("in the way")


def unblock(folder: Path) -> None:
    """Put the folder back, if there was one."""
    (folder / "files").unlink()
    if (folder / "kept").exists():
        (folder / "kept").rename(folder / "files")


def fail_in_sink(run: Run, world: World) -> tuple[Path, bytes]:
    """Commit epoch 2, whose file the further sink does not find; it is there again when the first destination looks."""
    (lost,) = world.records[2].tables["d.t"].change_files
    path = Path(run.first.landing.changes(OLD).url) / lost["name"]
    content, publish = path.read_bytes(), run.publisher._put
    path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.publisher, "_put", lambda _: None)
        run.commit(world.records[2:3])
    assert wait_for(lambda: run.further.error)
    path.write_bytes(content)
    publish(run.ledger.epoch(run.state.epoch))
    run.publisher.drain()
    return path, content


def wide_files(folder: Path) -> Rows:
    """The table with all columns, by the Parquet files."""
    return sorted((row["id"], row["v"], row.get("w")) for row in replayed(folder / "files", "d.t", "id").values())


def wide_mirror(folder: Path) -> Rows:
    """The table with all columns, by the lake."""
    return sorted((row["id"], row["v"], row.get("w")) for row in rows_at(folder / "lake/d/t").to_pylist())


def rows_of_u(folder: Path) -> Rows:
    """The other table, by the Parquet files."""
    return sorted((row["id"], row["v"]) for row in replayed(folder / "files", "d.u", "id").values())
