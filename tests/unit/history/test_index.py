"""The index contains what the journals contain, however often and whenever it was refreshed."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.history import History
from engine.history.fetch import Cursor, part
from engine.history.index_schema import TABLES
from engine.history.runs import journalled, runs
from engine.journal import Journal
from engine.journal.events import RunEnded
from engine.pipeline.directory import Directory
from tests.support.depth import depth
from tests.support.entries import event
from tests.support.simulation import SimulatedTable, Simulation


def contents(index: History) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    cursor = index.cursor()
    return {
        name: sorted(cursor.execute(f'SELECT * FROM "{name}"').fetchall(), key=str) for name in (*TABLES, "journal")
    }


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal with a failure, a pause, a torn line and a table that is split while it is copied."""
    walked = SimulatedTable("shop.items", 40_000, 40, None, estimated_chunks=30, split_each=5)
    tables = [SimulatedTable("shop.orders", 400_000, 40), walked]
    simulation = Simulation(tmp_path_factory.mktemp("source") / "shop", tables, seed=3)
    simulation.advance(8).command("pause").advance(5).command("resume").advance(10).end()
    return simulation.journal.path.read_bytes().replace(b"\n", b"\n{torn\n", 1)


@settings(max_examples=depth(5, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_split_into_refreshes_gives_the_same_index(journal: bytes, tmp_path: Path, data: st.DataObject) -> None:
    """A journal that grows in arbitrary pieces, even within a character, is indexed as if it had been complete."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(journal)), max_size=6)))
    directory = Directory(tmp_path / "shop")
    directory.journals.mkdir(parents=True, exist_ok=True)
    pieces, whole = History(None), History(None)
    for upto in [*cuts, len(journal)]:
        directory.journal("r").write_bytes(journal[:upto])
        pieces.refresh([directory])
    whole.refresh([directory])
    assert contents(pieces) == contents(whole)
    assert journalled(whole.cursor(), "shop").malformed == 1
    directory.journal("r").unlink()


def test_the_index_goes_on_after_a_restart_and_can_be_deleted(journal: bytes, tmp_path: Path) -> None:
    """Offsets are stored with the rows, so a new process reads only new lines; a deleted index is rebuilt."""
    directory = Directory(tmp_path / "shop")
    directory.journals.mkdir(parents=True)
    path = tmp_path / "history.duckdb"
    first = History(path)
    directory.journal("r").write_bytes(journal[:9000])
    first.refresh([directory])
    first.close()
    directory.journal("r").write_bytes(journal)
    second = History(path)
    taken = second.refresh([directory]).lines
    everything = contents(second)
    assert 0 < taken < len(everything["event"])
    assert second.refresh([directory]).lines == 0
    second.close()
    path.unlink()
    third = History(path)
    third.refresh([directory])
    rebuilt = contents(third)
    assert {name: rebuilt[name] for name in TABLES} == {name: everything[name] for name in TABLES}
    third.close()


def test_a_journal_that_was_replaced_is_read_from_its_start(journal: bytes, tmp_path: Path) -> None:
    """A file that shrank is another file: no row of the old one remains."""
    directory = Directory(tmp_path / "shop")
    directory.journals.mkdir(parents=True)
    index, fresh = History(None), History(None)
    directory.journal("r").write_bytes(journal)
    index.refresh([directory])
    short = journal[: journal.index(b"\n", 4000) + 1]
    directory.journal("r").write_bytes(short)
    index.refresh([directory])
    fresh.refresh([directory])
    assert contents(index) == contents(fresh)


def test_a_second_console_builds_its_index_in_memory_and_says_so(journal: bytes, tmp_path: Path) -> None:
    """A DuckDB file has one owner; the second console works all the same."""
    path = tmp_path / "history.duckdb"
    code = (
        "import sys, pathlib; from engine.history import History; h = History(pathlib.Path(sys.argv[1]));"
        "print(h.in_memory, flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == "None"
        directory = Directory(tmp_path / "shop")
        directory.journals.mkdir(parents=True)
        directory.journal("r").write_bytes(journal)
        index = History(path)
        assert index.in_memory == "another process owns the index"
        index.refresh([directory])
        assert len(runs(index.cursor())) == 1
    finally:
        owner.communicate()


def test_an_index_of_another_version_is_built_again(tmp_path: Path) -> None:
    """There is no migration, because the journals have everything."""
    path = tmp_path / "history.duckdb"
    with duckdb.connect(path) as old:
        old.execute("CREATE TABLE event (something INTEGER); CREATE TABLE version_0 (version INTEGER)")
    index = History(path)
    assert runs(index.cursor()) == []
    index.close()


def test_an_unreadable_journal_is_named_and_the_others_are_read(journal: bytes, tmp_path: Path) -> None:
    """One bad file does not hide the others."""
    directory = Directory(tmp_path / "shop")
    directory.journals.mkdir(parents=True)
    directory.journal("r").write_bytes(journal)
    directory.journal("a").mkdir()
    found = History(None).refresh([directory])
    assert found.lines > 50
    assert found.unreadable == ("a.jsonl: Is a directory",)


def test_an_answer_is_kept_while_others_change(tmp_path: Path) -> None:
    """Rows of other pipelines, and of tables that the query does not read. A deleted journal outdates all answers."""
    ours, other = Directory(tmp_path / "shop"), Directory(tmp_path / "other")
    journals = [Journal(where.journal("r1"), "r1") for where in (ours, other)]
    history, asked = History(None), list[str]()

    def count(cursor: Cursor, name: str) -> int:
        asked.append(name)
        found = cursor.execute("SELECT count(*) FROM event WHERE pipeline = $pipeline", {"pipeline": name}).fetchone()
        return int(found[0]) if found else 0

    def answers(*names: str) -> list[int]:
        history.refresh([ours, other])
        return [history.ask(count, name) for name in names]

    for journal in journals:
        journal.write(event("run.started", pipeline="shop"))
    assert answers("shop", "other") == [1, 1]
    journals[1].write(RunEnded(outcome="done"))
    journals[0].write(event("source.lag", lag_s=1.0))
    assert answers("shop", "other") == [1, 2]
    assert asked == ["shop", "other", "other"], "a lag is no event"
    for number in range(2):
        Journal(ours.journal(f"r{number + 2}"), f"r{number + 2}").write(event("run.started", pipeline="shop"))
    assert answers("shop", "other") == [3, 2]
    asked.clear()
    journals[0].close()
    for path in ours.journals.glob("r1*"):
        path.unlink()
    assert answers("shop", "other") == [2, 2]
    assert asked == ["shop", "other"]
    history.close()


def test_a_part_of_an_answer_is_kept_by_itself(tmp_path: Path) -> None:
    """The part is asked again only when its own rows come, and the whole answer when those of either come."""
    directory, asked = Directory(tmp_path / "shop"), list[str]()
    journal, history = Journal(directory.journal("r1"), "r1"), History(None)

    def count(cursor: Cursor, table: str) -> int:
        asked.append(table)
        found = cursor.execute(
            f"SELECT count(*) FROM {table} WHERE pipeline = $pipeline", {"pipeline": "shop"}
        ).fetchone()
        return int(found[0]) if found else 0

    def both(cursor: Cursor) -> tuple[int, int]:
        asked.append("both")
        return part(cursor, count, "begun"), count(cursor, "lag")

    def answer() -> tuple[tuple[int, int], list[str]]:
        asked.clear()
        history.refresh([directory])
        return history.ask(both), list(asked)

    journal.write(event("run.started", pipeline="shop"))
    assert answer() == ((1, 0), ["both", "begun", "lag"])
    assert answer() == ((1, 0), [])
    journal.write(event("source.lag", lag_s=1.0))
    assert answer() == ((1, 1), ["both", "lag"])
    journal.write(event("run.started", pipeline="shop"))
    assert answer() == ((2, 1), ["both", "begun", "lag"])
    assert both(history.cursor()) == (2, 1), "without answers that are kept"


def test_an_answer_is_kept_until_something_new_is_read(tmp_path: Path) -> None:
    """Repeated queries within a second are cached; no answer is outdated."""
    directory = Directory(tmp_path / "shop")
    journal = Journal(directory.journal("r1"), "r1")
    journal.write(event("run.started", pipeline="shop"))
    history, asked = History(None), []

    def count(cursor: Cursor, name: str, *, limit: int) -> int:
        asked.append((name, limit))
        found = cursor.execute("SELECT count(*) FROM event").fetchone()
        return int(found[0]) if found else 0

    history.refresh([directory])
    assert [history.ask(count, "shop", limit=n) for n in (1, 1, 2)] == [1, 1, 1]
    assert asked == [("shop", 1), ("shop", 2)]
    history.refresh([directory])
    assert (history.ask(count, "shop", limit=1), len(asked)) == (1, 2), "nothing was written"
    journal.write(RunEnded(outcome="done"))
    history.refresh([directory])
    assert (history.ask(count, "shop", limit=1), len(asked)) == (2, 3)
    journal.close()
    history.close()
