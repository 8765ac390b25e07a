"""The next run opens only tables that have changed since a run ended in order, and finds every damage as before."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine.base.errors import MismatchError
from engine.destination.delta.log import known_tables
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.record_json import change_from_json
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.run.lifecycle.takeover import Takeover
from tests.support.delta import path_of
from tests.unit.destination.support import OLD, World, lake_destination, log, mirror, publish_story, story

NAMES = frozenset[str]()


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has just changed is remembered.

    The tests wait for a tick of the file system's clock instead of two seconds.
    """
    monkeypatch.setattr(known_tables, "_SETTLED_S", 0.0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the logs that are opened from now on."""
    found, load = list[Path](), DeltaLog.load

    def spied(self: DeltaLog, apps: object = ()) -> DeltaTable:
        found.append(path_of(self.folder))
        return load(self, apps)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaLog, "load", spied)
    return found


class Runs:
    """Runs of one pipeline, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.world = World(folder)
        story(self.world)
        publish_story(self.world, folder, [])
        ledger = Ledger(folder / "ledger")
        assert ledger.state is not None
        ledger.commit(
            replace(following(ledger.state, "r", {}), applied={"d.t": {"chunks": 1, "changes": 3, "merge": 3}})
        )

    def run(self, *, in_order: bool = True) -> Publisher:
        """Take the pipeline, open its tables, and end."""
        self.count += 1
        ledger = Ledger(self.folder / "ledger")
        destination = lake_destination(self.folder, self.known)
        takeover = Takeover(destination, f"run {self.count}")
        takeover.take(ledger, NAMES, everything=False)
        journal = Journal(self.folder / "j.jsonl", "r")
        publisher = Publisher(self.world.sink(1000.0), destination, ledger, journal)
        assert ledger.state is not None
        publisher.tables.open_all(ledger.state)
        publisher.recover()
        publisher.finish()
        time.sleep(0.02)
        if in_order:
            publisher.tables.release()
        journal.close()
        return publisher

    @property
    def known(self) -> Path:
        return self.folder / "maintenance" / "known-tables.json"


def test_an_unchanged_table_is_not_opened(tmp_path: Path, opened: list[Path]) -> None:
    """It can be written to as before."""
    runs = Runs(tmp_path)
    assert runs.run().tables.unchanged_tables == set(), "the first run opens all"
    opened.clear()
    publisher = runs.run()
    assert publisher.tables.unchanged_tables == {"d.t"}
    assert opened == []
    ledger = Ledger(tmp_path / "ledger")
    change = {"changes": runs.world.changes(OLD, [("+I", 9, 9), ("-D", 2, 2)])}
    assert ledger.state is not None
    ledger.commit(replace(following(ledger.state, "r", {"d.t": change_from_json(change)}), next_seq=9))
    assert runs.run().tables.unchanged_tables == set(), "a file was added to the folder"
    assert mirror(tmp_path) == [(3, 3), (9, 9)]
    assert log(tmp_path)[-1] == ("-D", 2, 2, None)


@pytest.mark.parametrize("name", ["killed", "deleted", "damaged", "other columns", "of another run"])
def test_without_knowledge_every_table_is_opened(tmp_path: Path, opened: list[Path], name: str) -> None:
    """Also if it is another run's, or about other columns."""
    runs = Runs(tmp_path)
    runs.run(in_order=name != "killed")
    if name == "deleted":
        runs.known.unlink()
    elif name == "damaged":
        runs.known.write_text(runs.known.read_text()[:-20])
    elif name == "other columns":
        runs.known.write_text(runs.known.read_text().replace('"checked": "', '"checked": "0'))
    elif name == "of another run":
        found = json.loads(runs.known.read_text())
        runs.known.write_text(json.dumps({**found, "term": [found["term"][0] - 1, "run 0"]}))
    opened.clear()
    assert runs.run().tables.unchanged_tables == set()
    assert {path.name for path in opened} == {"t", "t__changes"}


def rolled_back(folder: Path) -> None:
    """The copy of an older version, with the times of its files."""
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    for version in range(1, DeltaTable(str(folder)).version() + 1):
        (aside / "_delta_log" / f"{version:020d}.json").unlink()
    shutil.rmtree(folder)
    aside.rename(folder)


def commit_torn(folder: Path) -> None:
    """As after a power cut, amid the log."""
    (folder / "_delta_log" / f"{1:020d}.json").unlink()
    (folder / "_delta_log" / f"{1:020d}.json").write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": shutil.rmtree,
    "a data file": lambda folder: Path(DeltaTable(str(folder)).file_uris()[0]).unlink(),
    "the log": lambda folder: shutil.rmtree(folder / "_delta_log"),
    "torn": commit_torn,
}


@pytest.mark.parametrize("folder", ["t", "t__changes"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(tmp_path: Path, damage: str, folder: str) -> None:
    """A restored, damaged or replaced folder has another inode or time."""
    runs = Runs(tmp_path)
    runs.run()
    DAMAGES[damage](tmp_path / "lake/d" / folder)
    with pytest.raises(MismatchError, match=r"d\.t"):
        runs.run()


@pytest.mark.parametrize("folder", ["t", "t__changes"])
def test_an_older_copy_is_found_and_repaired(tmp_path: Path, folder: str) -> None:
    """The ledger still has what it lacks, and applies it again."""
    runs = Runs(tmp_path)
    runs.run()
    rows, changes = mirror(tmp_path), log(tmp_path)
    rolled_back(tmp_path / "lake/d" / folder)
    assert runs.run().tables.unchanged_tables == set()
    assert (mirror(tmp_path), log(tmp_path)) == (rows, changes)


def test_the_commit_of_another_tool_is_seen(tmp_path: Path, opened: list[Path]) -> None:
    """Each adds a file to the log."""
    runs = Runs(tmp_path)
    runs.run()
    DeltaTable(str(tmp_path / "lake/d/t")).delete("id = 3")
    opened.clear()
    assert runs.run().tables.unchanged_tables == set()
    assert opened


def test_what_has_just_changed_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next change could have the same time."""
    runs = Runs(tmp_path)
    monkeypatch.setattr(known_tables, "_SETTLED_S", 1000.0)
    runs.run()
    assert json.loads(runs.known.read_text())["tables"] == {}
