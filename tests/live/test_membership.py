"""Tables join a running pipeline and leave it, by command and by the spec's globs, while the others stream on."""

import signal
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.status.status import status
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.schema_changes import CREATE, Writer
from tests.live.support.source import numbers
from tests.servers import Server
from tests.support.depth import on

ROWS, CHUNK_ROWS = 1000, 200


def _fill(server: Server, *names: str) -> None:
    for name in names:
        server.execute(CREATE.format(t=name))
        server.execute(f"INSERT INTO {name} (id, v, name) {numbers(0, ROWS - 1)} k, k % 9, 'x' FROM n")


def _send(pipeline: Pipeline, verb: str, *tables: str, **arguments: Any) -> None:
    """Send a command as the command line and the console do."""
    send_command(Directory(pipeline.home), verb, arguments={"tables": list(tables), **arguments} if tables else {})


def _tables(pipeline: Pipeline) -> dict[str, tuple[str, str | None]]:
    """State and destination of each table in `status`."""
    return {t.table: (t.state, t.destination) for t in status(Directory(pipeline.home), "shop").tables}


def _answers(pipeline: Pipeline) -> list[dict[str, Any]]:
    return pipeline.events("command.done", "command.refused")


def _answered(pipeline: Pipeline, runner: Runner, verb: str, *tables: str) -> dict[str, Any]:
    """Send a command and wait for its answer."""
    before = len(_answers(pipeline))
    _send(pipeline, verb, *tables)
    pipeline.wait_for(lambda: len(_answers(pipeline)) > before, runner)
    return _answers(pipeline)[-1]


def _state(pipeline: Pipeline, table: str) -> str:
    states = [e["state"] for e in pipeline.events("table.state") if e["table"] == table]
    return states[-1] if states else ""


def _await(pipeline: Pipeline, runner: Runner, table: str, state: str = "streaming") -> None:
    pipeline.wait_for(lambda: _state(pipeline, table) == state, runner)


def _started(pipeline: Pipeline, *, killed: bool = False) -> Runner:
    runs = len(pipeline.events("run.connected"))
    runner = pipeline.start(killed=killed)
    pipeline.wait_for(lambda: len(pipeline.events("run.connected")) > runs, runner)
    return runner


def _merged_on_read(pipeline: Pipeline, table: str) -> DeltaTable:
    """The mirror of an added table, which is merged as the spec says."""
    mirror = DeltaTable(str(pipeline.mirror(table)))
    assert mirror.metadata().configuration["delta.enableDeletionVectors"] == "true"
    return mirror


def _changed_since(pipeline: Pipeline, table: str, version: int) -> list[dict[str, Any]]:
    """The commits after a version that changed rows, oldest first: maintenance may commit meanwhile."""
    commits = _merged_on_read(pipeline, table).history()
    changed = [one for one in commits if one["version"] > version and one["operation"] != "OPTIMIZE"]
    return sorted(changed, key=lambda commit: commit["version"])


def _version(pipeline: Pipeline, table: str) -> int:
    return DeltaTable(str(pipeline.mirror(table))).version()


@pytest.mark.slow
@on("mysql")
def test_tables_join_and_leave_while_the_others_stream_on(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Tables are added, removed, kept, dropped and added again while the runner is killed each time; all end equal."""
    server = private_server(flavor)
    for database in ("d", "x"):
        server.execute(f"CREATE DATABASE {database}")
    _fill(server, "d.a", "d.b", "d.c", "x.o")
    server.execute("CREATE TABLE x.keyless (v INT)")
    pipeline = new_pipeline(
        server, "d", chunk_rows=CHUNK_ROWS, poll=0.6, merge=2.0, tables=["d.a", "d.b"], mirror="merge_on_read"
    )
    runner = pipeline.start_streaming(killed=True)
    with Writer(server, "d", ("a", "b", "c"), ROWS) as writer:
        _await(pipeline, runner, "d.b")
        _answered(pipeline, runner, "pause")
        _send(pipeline, "add-table", "d.c")
        pipeline.wait_for(lambda: pipeline.events("command.accepted")[-1]["verb"] == "add-table", runner)
        runner.kill()
        runner.wait()
        runner = _started(pipeline, killed=True)
        _await(pipeline, runner, "d.c")
        assert [(e["event"], e["verb"]) for e in _answers(pipeline)[1:]] == [("command.done", "add-table")]
        _refusals(server, pipeline, runner)

        assert _answered(pipeline, runner, "remove-table", "d.c")["event"] == "command.done"
        assert _tables(pipeline)["d.c"] == ("removed", "kept")
        _streams_on(server, pipeline, runner)
        left = _version(pipeline, "c")
        assert _answered(pipeline, runner, "add-table", "d.c", "x.o")["event"] == "command.done"
        for name in ("d.c", "x.o"):
            _await(pipeline, runner, name)
        pipeline.wait_for(lambda: _changed_since(pipeline, "c", left), runner)
        assert "overwrite" in str(_changed_since(pipeline, "c", left)[0]).lower(), "replaced at once, by the new copy"

        _send(pipeline, "remove-table", "d.b", drop=True)
        pipeline.wait_for(lambda: any("removed" in e["tables"].get("d.b", {}) for e in pipeline.epochs()), runner)
        runner.kill()
        runner.wait()
        runner = _started(pipeline)
        pipeline.wait_for(lambda: _answers(pipeline)[-1]["verb"] == "remove-table", runner)
        _gone(pipeline, "b")
        assert _answered(pipeline, runner, "add-table", "d.b")["event"] == "command.done"
        pipeline.wait_for(lambda: pipeline.events("chunk.assigned")[-1]["table"] == "d.b", runner)
        before = len(_answers(pipeline))
        _send(pipeline, "remove-table", "d.b", drop=True)
        pipeline.wait_for(lambda: len(_answers(pipeline)) > before, runner)
        _gone(pipeline, "b")
        assert _answered(pipeline, runner, "add-table", "d.b")["event"] == "command.done"
        _await(pipeline, runner, "d.b")
        writer.stop()
    server.execute("UPDATE x.o SET v = v + 1 WHERE id < 50")
    pipeline.finish(runner)
    for name in ("a", "b", "c"):
        assert writer.written[name] > 0
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))
    assert_equal(source_table(server, "x", "o"), pipeline.folder / "lake" / "x" / "o")
    assert not list((pipeline.home / "inbox").glob("*.json"))


def _gone(pipeline: Pipeline, table: str) -> None:
    """The table is dropped, and no file is left."""
    assert not pipeline.mirror(table).exists()
    assert not pipeline.changes(table).exists()
    assert _tables(pipeline)[f"d.{table}"] == ("removed", "dropped")


def _refusals(server: Server, pipeline: Pipeline, runner: Runner) -> None:
    """What contradicts the ledger is refused at once, what contradicts source or destination by the runner.

    Never in part.
    """
    for verb, name in (("add-table", "d.a"), ("remove-table", "d.zzz")):
        assert pipeline.command(verb, "--table", name).returncode == 2
    server.execute("CREATE VIEW d.seen AS SELECT * FROM d.a")
    server.execute("CREATE TABLE d.fine (id INT PRIMARY KEY)")
    server.execute("CREATE TABLE d.taken (id INT PRIMARY KEY)")
    server.execute("CREATE TABLE d.odd (id INT PRIMARY KEY, _tm_x INT)")
    write_deltalake(str(pipeline.mirror("taken")), pa.table({"id": [1]}))
    for name, why in (
        ("d.nothing", "no table d.nothing"),
        ("d.seen", "is a view"),
        ("d.taken", "exists already"),
        ("d.odd", "_tm_"),
    ):
        answer = _answered(pipeline, runner, "add-table", "d.fine", name)
        assert answer["event"] == "command.refused"
        assert why in answer["message"], answer
    assert not pipeline.mirror("fine").exists()
    assert set(_tables(pipeline)) == {"d.a", "d.b", "d.c"}
    server.execute("DROP TABLE d.taken, d.odd, d.fine")
    answers = [_answered(pipeline, runner, f"{verb}-table", "x.keyless") for verb in ("add", "remove", "add")]
    assert [answer["event"] for answer in answers] == ["command.done", "command.done", "command.refused"]
    assert "no key" in answers[-1]["message"]


def _streams_on(server: Server, pipeline: Pipeline, runner: Runner) -> None:
    """The mirror of a removed table stays unchanged, while another table receives new changes."""
    kept = _version(pipeline, "c")
    server.execute("INSERT INTO d.a (id, v) VALUES (-1, 1)")
    server.execute("INSERT INTO d.c (id, v) VALUES (-1, 1)")

    def there() -> bool:
        with suppress(FileNotFoundError, OSError):
            return -1 in lake_table(pipeline.mirror("a"))["id"].to_pylist()
        return False

    pipeline.wait_for(there, runner)
    assert -1 not in lake_table(pipeline.mirror("c"))["id"].to_pylist()
    assert _version(pipeline, "c") == kept


@on("mariadb")
def test_tables_that_begin_to_match_are_added(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Tables that are created, renamed and filled, during a run and between runs, are added; a removed one is not."""
    server = private_server(flavor)
    for database in ("d", "x"):
        server.execute(f"CREATE DATABASE {database}")
    _fill(server, "d.a", "x.moved")
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0, tables=["d.*", "!d.not_*"])
    runner = pipeline.start_streaming()
    _fill(server, "d.made", "d.not_this")
    server.execute("RENAME TABLE x.moved TO d.moved")
    server.execute("CREATE TABLE d.keyless (v INT)")
    server.execute("INSERT INTO d.keyless VALUES (1), (2)")
    with Writer(server, "d", ("a", "made", "moved"), ROWS) as writer:
        for name in ("d.made", "d.moved", "d.keyless"):
            _await(pipeline, runner, name)
        writer.stop()
    pipeline.finish(runner)
    for name in ("a", "made", "moved"):
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))
    assert sorted(lake_table(pipeline.changes("keyless"))["v"].to_pylist()) == [1, 2]

    _fill(server, "d.late", "d._a_gho")
    server.execute("UPDATE d.moved SET v = v + 1")
    assert pipeline.command("remove-table", "--table", "d.made", "--table", "d.keyless").returncode == 0
    pipeline.run("caught-up")
    for name in ("late", "moved"):
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))
    expected = dict.fromkeys(("d.a", "d.late", "d.moved"), ("streaming", None))
    assert _tables(pipeline) == expected | dict.fromkeys(("d.made", "d.keyless"), ("removed", "kept"))


def test_a_run_names_the_tables_that_it_plans(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """A new table is planned without a command. Until its plan is committed, only the heartbeat names it."""
    _fill(server, f"{database}.a")
    pipeline = new_pipeline(server, database, poll=0.3)
    runner, where = pipeline.start_streaming(), Directory(pipeline.home)

    def planning() -> tuple[str, ...] | None:
        record = read_runner(where)
        return record.planning if record is not None and record.responds else None

    pipeline.wait_for(lambda: planning() == (), runner)
    with closing(server.connect(database=database)) as session, session.cursor() as holder:
        runner.send_signal(signal.SIGSTOP)  # the table is locked before the run can plan it
        try:
            _fill(server, f"{database}.later")
            holder.execute("LOCK TABLES later WRITE")
        finally:
            runner.send_signal(signal.SIGCONT)
        pipeline.wait_for(lambda: planning() == (f"{database}.later",), runner)
        assert _state(pipeline, f"{database}.later") == ""
        holder.execute("UNLOCK TABLES")
    _await(pipeline, runner, f"{database}.later")
    pipeline.wait_for(lambda: planning() == (), runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "later"), pipeline.mirror("later"))


def test_new_tables_never_make_a_start_fail_unless_asked(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """With `ignore` an alert names them until they are gone; so does it with `refuse`, whose next start is refused."""
    _fill(server, f"{database}.a")
    pipeline = new_pipeline(server, database, source='new_tables = "ignore"')
    pipeline.run("caught-up")
    _fill(server, f"{database}.later")
    server.execute(f"UPDATE {database}.a SET v = v + 1 WHERE id = 1")

    def alerts() -> list[tuple[str, str]]:
        found = pipeline.events("alert.raised", "alert.cleared")
        return [(e["event"], e["message"]) for e in found if e["kind"] == "new_tables"]

    runner = pipeline.start()
    pipeline.wait_for(alerts, runner)
    assert f"not captured (source.new_tables): {database}.later" in alerts()[0][1]
    pipeline.finish(runner)
    assert [alert["kind"] for alert in pipeline.status()["alerts"]] == ["new_tables"]
    assert _tables(pipeline) == {f"{database}.a": ("streaming", None)}
    assert_equal(source_table(server, database, "a"), pipeline.mirror("a"))

    pipeline.spec.write_text(pipeline.spec.read_text().replace('"ignore"', '"refuse"'))
    refused = pipeline.command("run", "--until", "caught-up")
    assert (refused.returncode, f"{database}.later" in refused.stderr) == (2, True)
    pipeline.spec.write_text(pipeline.spec.read_text().replace('new_tables = "refuse"', ""))
    pipeline.run("caught-up")
    assert _state(pipeline, f"{database}.later") == "streaming"
    runner = pipeline.start()
    pipeline.wait_for(lambda: alerts()[-1][0] == "alert.cleared", runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "later"), pipeline.mirror("later"))


@on("mariadb")
def test_a_pipeline_that_copies_nothing_streams_an_added_table(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """It streams from its addition on; a removed and kept table starts over."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    _fill(server, "d.a", "d.b")
    pipeline = new_pipeline(server, "d", poll=0.3, merge=0.5, tables=["d.a"], source='startup = "latest"')
    runner = pipeline.start_streaming()
    assert _answered(pipeline, runner, "add-table", "d.b")["event"] == "command.done"
    server.execute("INSERT INTO d.b (id, v) VALUES (-1, 1)")
    pipeline.wait_for(lambda: _ids(pipeline) == [-1], runner)
    assert _answered(pipeline, runner, "remove-table", "d.b")["event"] == "command.done"
    server.execute("INSERT INTO d.b (id, v) VALUES (-2, 1)")
    assert _answered(pipeline, runner, "add-table", "d.b")["event"] == "command.done"
    server.execute("INSERT INTO d.b (id, v) VALUES (-3, 1)")
    pipeline.wait_for(lambda: _ids(pipeline) in ([-3], [-3, -2]), runner)
    pipeline.finish(runner)


def _ids(pipeline: Pipeline) -> list[int]:
    with suppress(OSError):
        return sorted(lake_table(pipeline.mirror("b"))["id"].to_pylist())
    return []
