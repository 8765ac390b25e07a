"""Every file that is kept says its version.

What the parent commit wrote is read, what a newer one wrote is refused by name.

`parent_format/` was written by commit ddb7c1e: a pipeline of one table on MySQL, copied, streamed, throttled and
paused, its runner killed in the end (a full state every 4 epochs, nothing pruned); a parked chunk and alerts; a draft,
a saved connection, saved queries. Names of hosts and folders were replaced.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from app.explore import saved
from app.wizard import drafts
from engine.base.errors import NewerFormatError
from engine.capture.redump_requests import chunk_ranges
from engine.history import History, runs
from engine.history.index_schema import VERSION
from engine.journal import Journal
from engine.journal.events import fields_of
from engine.ledger.store import Ledger
from engine.pipeline import formats
from engine.pipeline.command_file import send_command
from engine.pipeline.controls import Controls, load_controls
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.pipeline.saved_lists import read_alerts, read_parked
from engine.run.commands.control import ControlOptions, control_of
from engine.run.snapshot.parking import Parking
from engine.run.tables.table_commands import parsers
from engine.status.status import status
from engine.status.support_bundle import _versions

PARENT = Path(__file__).parent / "parent_format"
DRAFT = "0a1b2c3d"


@pytest.fixture
def parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """The parent's pipeline folder, in the parent's home."""
    home = tmp_path / "home"
    shutil.copytree(PARENT, home / "shop")
    (home / ".drafts").mkdir()
    shutil.move(home / "shop" / "home" / "draft.json", home / ".drafts" / f"{DRAFT}.json")
    for name in ("connections.json", "queries.json"):
        shutil.move(home / "shop" / "home" / name, home / name)
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    return Directory(home / "shop")


def test_the_parents_ledger_is_read(parents: Directory) -> None:
    """From its last full state and from epoch 0; both give the same state."""
    state = Ledger(parents.ledger).state
    assert state is not None
    assert state.epoch == max(int(path.stem[6:]) for path in parents.ledger.glob("epoch-*.json"))
    assert [(name, t.state, t.rows_read) for name, t in state.tables.items()] == [("d.t", "streaming", 60)]
    fulls = list(parents.ledger.glob("state-*.json"))
    assert fulls
    for full in fulls:
        full.unlink()
    assert Ledger(parents.ledger).state == state


def test_the_parents_files_are_read(parents: Directory) -> None:
    """Controls, parked chunks, alerts, the heartbeat and answered commands, and so the status."""
    assert load_controls(parents) == Controls({"max_rows_per_s": 5000}, snapshot=False, tables=("d.t",))
    (parked,) = read_parked(parents)
    assert (parked.table, parked.chunk, parked.attempts) == ("d.t", 3, 8)
    assert {alert.kind for alert in read_alerts(parents)} == {"chunk_parked", "run_failed"}
    runner = read_runner(parents)
    assert runner is not None
    assert (runner.state, runner.alive) == ("starting", False)
    journal = Journal(parents.journal("99999999T000000-000000"), "99999999T000000-000000")
    assert [p.chunk for p in Parking(parents, journal)._chunks.values()] == [3]
    control = control_of(parents, journal, ControlOptions("shop", parsers=parsers(parents.journals)))
    control.intake.poll()  # the redump that waits is judged when the ledger is known; nothing is refused
    assert not [e for e in map(json.loads, journal.path.read_text().splitlines()) if e["event"] == "command.refused"]
    assert len(list((parents.inbox / "done").glob("*.json"))) == 2
    journal.close()
    found = status(parents, "shop")
    assert (found.state, found.tables[0].rows_read) == ("lost", 60)


def test_the_parents_journals_are_read(parents: Directory) -> None:
    """By the history, and by the search for chunks."""
    history = History(None)
    result = history.refresh([parents])
    assert result.malformed == 0
    assert not result.unreadable
    assert len(runs.runs(history.cursor(), "shop")) == 2
    history.close()
    state = Ledger(parents.ledger).state
    assert state is not None
    from engine.decode.schema import table_from_dict
    from engine.plan.chunks import plan_from_dict

    table = state.tables["d.t"]
    (limits,) = chunk_ranges(parents.journals, table_from_dict(table.table), plan_from_dict(table.plan), [1])
    assert limits.as_list() == [["20"], ["40"]]


def test_the_parents_drafts_and_connections_are_read(parents: Directory) -> None:
    """They are written back with their version."""
    (draft,) = drafts.saved_drafts()
    assert (draft.id, draft.name) == (DRAFT, "shop")
    assert drafts.connections()["main"]["host"] == "db"
    drafts.save_connection("other", {"host": "db2"})
    assert set(drafts.connections()) == {"main", "other"}
    drafts.change(DRAFT, lambda found: found.put("name", value="shop2"))
    assert json.loads((drafts.folder() / f"{DRAFT}.json").read_text())["format"] == formats.VERSIONS["draft"]


def test_the_parents_queries_are_read(parents: Directory) -> None:
    """They are written back with their version; a query may have the name `format`."""
    path = parents.root.parent / "queries.json"
    assert saved.load() == {"all": "SELECT * FROM t", "format": "SELECT 'x'"}
    saved.save("one", "SELECT 1")
    assert set(saved.load()) == {"all", "format", "one"}
    assert json.loads(path.read_text())["format"] == formats.VERSIONS["queries"]


def _raise_version(path: Path) -> None:
    record = json.loads(path.read_text())
    named = record if isinstance(record, dict) else {"records": record}
    path.write_text(json.dumps({**named, "format": 7}))


def _last(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern))


REFUSED: dict[str, tuple[Callable[[Directory], Path], Callable[[Directory], Any]]] = {
    "epoch": (lambda d: _last(d.ledger, "epoch-*.json"), lambda d: Ledger(d.ledger)),
    "state": (lambda d: _last(d.ledger, "state-*.json"), lambda d: Ledger(d.ledger)),
    "controls": (lambda d: d.controls, load_controls),
    "parked": (lambda d: d.parked, lambda d: Parking(d, Journal(d.journal("z"), "z"))),
    "alerts": (lambda d: d.alerts, read_alerts),
    "runner": (lambda d: d.runner, read_runner),
    "draft": (lambda d: d.root.parent / ".drafts" / f"{DRAFT}.json", lambda _: drafts.load(DRAFT)),
    "connections": (
        lambda d: d.root.parent / "connections.json",
        lambda _: drafts.save_connection("x", {"host": "y"}),
    ),
    "queries": (lambda d: d.root.parent / "queries.json", lambda _: saved.save("x", "SELECT 1")),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_newer_version_is_refused_by_name(name: str, parents: Directory) -> None:
    """The error names the file, both versions and the remedy; the file stays unchanged."""
    find, read = REFUSED[name]
    path = find(parents)
    _raise_version(path)
    before = path.read_bytes()
    with pytest.raises(NewerFormatError) as raised:
        read(parents)
    known = formats.VERSIONS[name]
    assert f"{path} has version 7 of the format {name!r}; this Tidemark knows up to {known}." in raised.value.message
    assert "newer Tidemark" in raised.value.hint
    assert path.read_bytes() == before


def test_a_newer_command_is_refused_by_name(parents: Directory) -> None:
    """Only that one; the commands behind it are executed."""
    identity = send_command(parents, "throttle", arguments={"readers": 1})
    _raise_version(parents.inbox / f"{identity}.json")
    second = send_command(parents, "throttle", arguments={"readers": 2})
    journal = Journal(parents.journal("z"), "z")
    control = control_of(parents, journal, ControlOptions("shop", parsers=parsers(parents.journals)))
    control.intake.poll()
    journal.close()
    events = [json.loads(line) for line in journal.path.read_text().splitlines()]
    (refused,) = [e for e in events if e["event"] == "command.refused"]
    assert refused["id"] == identity
    assert "has version 7 of the format 'command'" in refused["message"]
    assert (parents.inbox / "done" / f"{second}.json").exists()


def test_a_newer_journal_is_passed_over_by_name(parents: Directory) -> None:
    """The other journals are read; the search for chunks ends there."""
    path = parents.journal("20270101T000000-aaaaaa")
    fields = dict.fromkeys(fields_of("run.started")) | {"format": 7}
    line = {"run": path.stem, "seq": 1, "ts": "2027-01-01T00:00:00.000000Z", "event": "run.started", **fields}
    path.write_text(json.dumps(line) + "\n")
    history = History(None)
    result = history.refresh([parents])
    assert "version 7 of the format 'journal'" in result.unreadable[0]
    assert len(runs.runs(history.cursor(), "shop")) == 2
    history.close()
    state = Ledger(parents.ledger).state
    assert state is not None
    from engine.decode.schema import table_from_dict
    from engine.plan.chunks import plan_from_dict

    table = state.tables["d.t"]
    with pytest.raises(NewerFormatError, match="'journal'"):
        chunk_ranges(parents.journals, table_from_dict(table.table), plan_from_dict(table.plan), [1])


def test_a_newer_history_is_left_as_it_is(tmp_path: Path) -> None:
    """The index is built in memory, with a reason; an older index is rebuilt."""
    path = tmp_path / "history.duckdb"
    with duckdb.connect(path) as newer:
        newer.execute(f"CREATE TABLE version_{VERSION + 1} (version INTEGER)")
        newer.execute("CREATE TABLE event (what VARCHAR)")
    history = History(path)
    assert history.in_memory is not None
    assert f"version {VERSION + 1}, which a newer Tidemark made" in history.in_memory
    assert history.refresh([]).lines == 0
    history.close()
    with duckdb.connect(path) as newer:
        assert newer.execute("SELECT count(*) FROM event").fetchall() == [(0,)]


def test_what_is_written_says_its_version(tmp_path: Path) -> None:
    """Also the support bundle, which no code reads."""
    assert json.loads(_versions())["format"] == formats.VERSIONS["bundle"]
    directory = Directory(tmp_path)
    identity = send_command(directory, "stop")
    assert json.loads((directory.inbox / f"{identity}.json").read_text())["format"] == formats.VERSIONS["command"]
    journal = Journal(directory.journal("r"), "r")
    control_of(directory, journal).thread.finish(None)
    assert json.loads(directory.runner.read_text())["format"] == formats.VERSIONS["runner"]
    assert "format" in fields_of("run.started")
    journal.close()
