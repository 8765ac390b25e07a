"""Which commits of other programs are noticed, and until when."""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine.capture.landing import MirrorReader
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.log.foreign_commits import commits_after
from engine.destination.delta.read import delta_reader
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.journal.events import TableStateChanged
from engine.ledger.state import State, TableState
from engine.pipeline import helpers
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.verification_records import ForeignChanges, MirrorLogs
from engine.pipeline.verifications import read_mirror_logs, save
from engine.run.monitors import mirror_monitor
from engine.run.monitors.mirror_monitor import MirrorMonitor, Watched
from engine.source.positions import Position
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.support.verified import VERIFIED
from tests.unit.destination.lake import INT, Lake

News = list[tuple[int, list[int], str | None]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A mirror with thirty rows."""
    lake = Lake(tmp_path / "lake", "copy_on_write")
    lake.copy({n: n for n in range(30)})
    return lake


def watched() -> Watched:
    """Nothing is known yet."""
    return Watched(MirrorLogs(versions={}, foreign={}))


def reader_of(lake: Lake) -> MirrorReader:
    """Reads the mirror back."""
    return DeltaLanding(LocalFolder(lake.folder)).reader(lake.table)


def news(watched: Watched, lake: Lake) -> News:
    """The events of a look: the number of commits, the new versions, and what cleared it."""
    found = list(watched.look("d.t", reader_of(lake)))
    return [(one.commits, [commit.version or 0 for commit in one.newest], one.cleared_by) for one in found]


def written(lake: Lake, key: int) -> int:
    """Another program deletes a row. Returns the version."""
    delta = DeltaTable(lake.pair.mirror.folder.url)
    delta.delete(f"id = {key}")
    return delta.version()


def test_each_commit_of_another_program_is_reported_once(lake: Lake) -> None:
    """Those that are there at the first look too. Tidemark's own are not."""
    looks, first = watched(), written(lake, 1)
    assert news(looks, lake) == [(1, [first], None)]
    assert news(looks, lake) == []
    lake.change([(2, 5)])
    DeltaTable(lake.pair.mirror.folder.url).optimize.compact()
    assert news(looks, lake) == []
    more = [written(lake, key) for key in range(10, 22)]
    assert news(looks, lake) == [(13, more[:1:-1], None)]
    looks = Watched(MirrorLogs.from_json(json.loads(json.dumps(looks.logs.to_json()))))
    assert news(looks, lake) == [], "a restart"
    assert looks.logs.foreign == {"d.t": ForeignChanges(commits=13, version=more[-1])}


def test_a_new_copy_of_the_mirror_ends_it(lake: Lake) -> None:
    """All rows are Tidemark's then, except for what is written after it; also if that is all found in one look."""
    looks = watched()
    assert news(looks, lake) == []
    written(lake, 1)
    lake.empty(lake.epoch + 1)
    assert news(looks, lake) == []
    lake = Lake(lake.folder / "more", "copy_on_write")
    lake.copy({1: 1, 2: 2})
    looks, first = watched(), written(lake, 1)
    assert news(looks, lake) == [(1, [first], None)]
    lake.empty(lake.epoch + 1)
    assert news(looks, lake) == [(0, [], "resnapshot")]
    assert not looks.logs.foreign


def test_a_mirror_in_a_new_folder_is_another_one(lake: Lake) -> None:
    """It was moved away and resnapshotted, or removed and added."""
    looks = watched()
    for key in range(3):
        written(lake, key)
    assert [count for count, *_ in news(looks, lake)] == [3]
    lake.pair.drop()
    assert news(looks, lake) == [], "there is no log"
    again = Lake(lake.folder, "copy_on_write")
    again.copy({1: 1})
    assert news(looks, again) == [(0, [], "resnapshot")]
    looks.forget(["d.t"])
    assert looks.logs == MirrorLogs(versions={}, foreign={})
    first = written(again, 1)
    assert news(looks, again) == [(1, [first], None)]


def test_a_verification_at_that_version_or_a_later_one_ends_it(lake: Lake) -> None:
    """An earlier one does not."""
    looks, version = watched(), written(lake, 1)
    list(looks.look("d.t", reader_of(lake)))
    assert list(looks.proved({"d.t": replace(VERIFIED, version=version - 1)})) == list(looks.proved({})) == []
    (event,) = looks.proved({"d.t": replace(VERIFIED, version=version)})
    assert (event.table, event.commits, event.cleared_by) == ("d.t", 0, "verification")
    assert not looks.logs.foreign


def test_an_alert_is_cleared_by_a_verification_also_if_the_file_was_lost(lake: Lake) -> None:
    """Its commit is found among the newest, or was long ago.

    Then only a verification of the present version proves anything.
    """
    for changes in (True, False):
        looks = Watched(MirrorLogs(versions={}, foreign={}), ["d.t"])
        if not changes:
            lake = Lake(lake.folder / "more", "copy_on_write")
            lake.copy({1: 1})
        version = written(lake, 1) if changes else DeltaTable(lake.pair.mirror.folder.url).version()
        assert not list(looks.proved({"d.t": replace(VERIFIED, version=99)})), "its log was not read yet"
        assert news(looks, lake) == ([(1, [version], None)] if changes else [])
        assert not list(looks.proved({"d.t": replace(VERIFIED, version=version - 1)}))
        (event,) = looks.proved({"d.t": replace(VERIFIED, version=version)})
        assert (event.commits, event.cleared_by) == (0, "verification")
    looks = Watched(MirrorLogs(versions={}, foreign={}), ["d.t"])
    looks.forget(["d.t"])
    assert looks.unsaved
    assert not looks.logs.foreign


class World:
    """A monitor of one mirror, with a journal."""

    def __init__(self, folder: Path, lake: Lake) -> None:
        self.directory, self.lake = Directory(folder / "shop"), lake
        self.journal = Journal(self.directory.journal("r"), "r")
        state = State(0, "l", "", Position("b.000001", 4), 0, {"d.t": TableState(INT.as_dict(), {})})
        self.monitor = MirrorMonitor(
            DeltaLanding(LocalFolder(lake.folder)), self.directory, self.journal, Helpers(self.journal), lambda: state
        )

    def close(self) -> None:
        """End the monitor."""
        self.monitor.close()
        self.journal.close()

    def events(self, kind: str = "mirror.written") -> list[dict[str, Any]]:
        """The journal's events of a kind."""
        path = self.directory.journal("r")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["event"] == kind]

    def merged(self) -> None:
        """A merge."""
        self.lake.change([(5, 6)])
        applied = {"sink": "delta", "table": "d.t", "through_epoch": 1, "rows": 1, "files": 1, "duration_s": 0.1}
        self.journal.write(SinkApplied(kind="merge", **applied))  # type: ignore[arg-type]

    def logs(self) -> MirrorLogs:
        """What is saved."""
        return read_mirror_logs(self.directory)


def wait(found: Callable[[], object]) -> None:
    """Wait until it is true."""
    until_s = time.monotonic() + 30
    while not found():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def test_a_merge_is_followed_by_a_look_at_once(tmp_path: Path, lake: Lake) -> None:
    """A mirror at rest waits for its turn. A program that writes all the time causes one event a turn."""
    with closing(World(tmp_path, lake)) as world:
        wait(lambda: world.monitor._began_s > 0)
        first = written(lake, 1)
        time.sleep(1.5)
        assert not world.events()
        world.merged()
        wait(world.events)
        (event,) = world.events()
        assert (event["table"], event["commits"]) == ("d.t", 1)
        (commit,) = event["newest"]
        assert (commit["version"], commit["operation"]) == (first, "DELETE")
        assert commit["author"].startswith("delta-rs")
        assert commit["at"] > "2026"
        written(lake, 2)
        world.merged()
        time.sleep(1.5)
        assert len(world.events()) == 1
    assert world.logs().versions == {"d.t": first + 1}, "the merge"


def test_mirrors_at_rest_have_their_turn(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed while no monitor ran is found, once. It is over when the table is verified, or removed."""
    monkeypatch.setattr(mirror_monitor, "INTERVAL_S", 1.0)
    first = written(lake, 1)
    for _ in range(2):
        with closing(World(tmp_path, lake)) as world:
            wait(lambda: world.events() and world.monitor._began_s > 0)
            time.sleep(2)
        assert [event["commits"] for event in world.events()] == [1]
        assert world.logs().foreign == {"d.t": ForeignChanges(commits=1, version=first)}
    with closing(World(tmp_path, lake)) as world:
        save(world.directory, {"d.t": replace(VERIFIED, version=first)}, [])
        wait(lambda: len(world.events()) == 2)
        assert (world.events()[1]["commits"], world.events()[1]["cleared_by"]) == (0, "verification")
        written(lake, 2)
        wait(lambda: len(world.events()) == 3)
        world.journal.write(TableStateChanged(table="d.t", state="removed"))
        lake.pair.drop()
        wait(lambda: not world.logs().foreign)
        assert len(world.events()) == 3


def test_a_commit_that_cannot_be_read_is_reported(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the error of a helper. It is read again in its next turn."""
    monkeypatch.setattr(mirror_monitor, "INTERVAL_S", 1.0)
    refused = [True]

    def after(folder: Folder, version: int) -> object:
        if refused:
            raise PermissionError(13, "Permission denied", folder.url)
        return commits_after(folder, version)

    monkeypatch.setattr(delta_reader, "commits_after", after)
    monkeypatch.setattr(helpers, "CALM_S", 0.2)
    written(lake, 1)
    with closing(World(tmp_path, lake)) as world:
        wait(lambda: world.events("error"))
        assert "Permission denied" in world.events("error")[0]["message"]
        assert not world.events()
        time.sleep(4)
        assert not world.events("helper.recovered"), "it was not read yet"
        assert len(world.events("error")) == 1
        refused.clear()
        wait(world.events)
        wait(lambda: world.events("helper.recovered"))


def test_many_changed_mirrors_are_saved_at_once(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes all mirrors does not cause a sync for each of them."""
    saves = list[int]()
    monkeypatch.setattr(mirror_monitor, "save_mirror_logs", lambda _, logs: saves.append(len(logs.foreign)))
    written(lake, 1)
    tables = {}
    for n in range(50):
        shutil.copytree(path_of(lake.pair.mirror.folder), path_of(lake.pair.mirror.folder.parent) / f"t{n}")
        tables[f"d.t{n}"] = TableState({**INT.as_dict(), "name": f"t{n}"}, {})
    journal = Journal(tmp_path / "shop" / "r.jsonl", "r")
    state = State(0, "l", "", Position("b.000001", 4), 0, tables)
    with closing(
        MirrorMonitor(
            DeltaLanding(LocalFolder(lake.folder)),
            Directory(tmp_path / "shop"),
            journal,
            Helpers(journal),
            lambda: state,
        )
    ):
        wait(lambda: saves and saves[-1] == 50)
    assert len(saves) < 5


def test_it_rests_after_a_slow_look_but_not_for_hours() -> None:
    """A file system may hang for an hour."""
    assert [round(mirror_monitor.rest_after_s(took_s), 3) for took_s in (0.01, 2.0, 3600.0)] == [0.19, 38.0, 600.0]


def test_a_verification_of_an_earlier_copy_proves_nothing(tmp_path: Path, lake: Lake) -> None:
    """The mirror's folder was lost since, so its versions began again."""
    with closing(World(tmp_path, lake)) as world:
        version = written(lake, 1)
        save(world.directory, {"d.t": replace(VERIFIED, version=99, generation=-1)}, [])
        wait(world.events)
        time.sleep(1.5)
        assert world.logs().foreign == {"d.t": ForeignChanges(commits=1, version=version)}
        assert len(world.events()) == 1
