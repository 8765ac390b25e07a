"""A run that ends, or is not started, continues when one does what its hint says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

SHOWN = '[tables."{}.shown"]\ncolumns = ["id", "{}"]\n'


@on("mariadb")
def test_what_is_refused_continues_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """What a start may meet.

    A stopped run, tables that are new, damaged settings, an altered projection, and a table that has lost its key.
    """
    for name in ("shown", "unkeyed", "rekeyed"):
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, v INT, w INT)")
        server.execute(f"INSERT INTO {database}.{name} VALUES (1, 1, 1), (2, 2, 2)")
    pipeline = new_pipeline(server, database, source='new_tables = "refuse"', more=SHOWN.format(database, "v"))
    stopped_and_run_again(pipeline)
    new_tables(server, pipeline)
    damaged_controls(pipeline)
    altered_projection(server, pipeline)
    lost_keys(server, pipeline)
    for name in ("rekeyed", "added", "matched"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    shown = source_table(server, database, "shown")
    assert lake_table(pipeline.mirror("shown")).select(["id", "w"]).sort_by("id").equals(shown.select(["id", "w"]))
    assert sorted(row["id"] for row in rows_at(pipeline.changes("unkeyed")).to_pylist()) == [1, 2]


def stopped_and_run_again(pipeline: Pipeline) -> None:
    """A run with a goal is stopped before it."""
    assert pipeline.command("pause", "--snapshot").returncode == 0
    runner = pipeline.start("--until", "caught-up")
    pipeline.wait_for(lambda: pipeline.events("run.connected"), runner)
    assert pipeline.command("stop").returncode == 0
    assert runner.wait(timeout=PATIENCE_S) == 1
    assert "Run it again: it continues from there." in pipeline.output
    assert pipeline.command("resume", "--snapshot").returncode == 0
    pipeline.run("caught-up")


def new_tables(server: Server, pipeline: Pipeline) -> None:
    """Added by a command, by the setting, and excluded."""
    for name in ("added", "matched", "left"):
        full = f"{pipeline.database}.{name}"
        server.execute(f"CREATE TABLE {full} (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO {full} VALUES (1)")
        hint = refused(pipeline)
        assert 'source.new_tables = "add"' in hint
        assert "or exclude them in source.tables" in hint
        if name == "added":
            assert f"tidemark add-table SPEC --table {full}" in hint
            assert pipeline.command("add-table", "--table", full).returncode == 0
        elif name == "matched":
            change(pipeline, '"refuse"', '"add"')
        else:
            change(pipeline, f'"{pipeline.database}.*"', f'"{pipeline.database}.*", "!{full}"')
        pipeline.run("caught-up")
        change(pipeline, '"add"', '"refuse"')


def damaged_controls(pipeline: Pipeline) -> None:
    """The settings of operators are deleted."""
    (pipeline.home / "controls.json").write_text('{"snapshot": tr')
    assert "Repair it, or delete it" in refused(pipeline)
    (pipeline.home / "controls.json").unlink()
    pipeline.run("caught-up")


def altered_projection(server: Server, pipeline: Pipeline) -> None:
    """The spec publishes a column that is dropped during a run."""
    runner = pipeline.start_streaming()
    server.execute(f"ALTER TABLE {pipeline.database}.shown DROP COLUMN v")
    pipeline.wait_for(lambda: any(table["state"] == "stopped" for table in pipeline.status()["tables"]), runner)
    hint = next(table["hint"] for table in pipeline.status()["tables"] if table["state"] == "stopped")
    steps = (
        "Stop the run, correct the section tables of the spec, and resnapshot the table: tidemark redump SPEC --table"
    )
    assert hint == f"{steps} {pipeline.database}.shown, then run again."
    assert pipeline.command("stop").returncode == 0
    assert runner.wait(timeout=PATIENCE_S) == 1
    change(pipeline, SHOWN.format(pipeline.database, "v"), SHOWN.format(pipeline.database, "w"))
    assert pipeline.command("redump", "--table", f"{pipeline.database}.shown").returncode == 0
    pipeline.run("caught-up")


def lost_keys(server: Server, pipeline: Pipeline) -> None:
    """Tables that were removed, and have lost their keys when they are added again.

    The folders are moved, or the key is added.
    """
    names = ("unkeyed", "rekeyed")
    tables = [word for name in names for word in ("--table", f"{pipeline.database}.{name}")]
    for name in names:  # so that both change logs have rows
        server.execute(f"UPDATE {pipeline.database}.{name} SET v = 3 WHERE id = 2")
    pipeline.run("caught-up")
    assert pipeline.command("remove-table", *tables).returncode == 0
    pipeline.run("caught-up")
    for name in names:
        server.execute(f"ALTER TABLE {pipeline.database}.{name} DROP PRIMARY KEY")
        assert pipeline.command("add-table", "--table", f"{pipeline.database}.{name}").returncode == 0
        pipeline.run("caught-up")
        hint = pipeline.events("command.refused")[-1]["message"]
        if name == "unkeyed":
            folders = pipeline.mirror(name), pipeline.changes(name)
            assert f"Move {folders[0]} and {folders[1]} away, as far as they exist" in hint
            for folder in folders:
                shutil.move(folder, Path(f"{folder}-away"))
        else:
            assert "or give the table a primary key" in hint
            server.execute(f"ALTER TABLE {pipeline.database}.{name} ADD PRIMARY KEY (id)")
        assert f"Then add it again: tidemark add-table SPEC --table {pipeline.database}.{name}" in hint
        assert pipeline.command("add-table", "--table", f"{pipeline.database}.{name}").returncode == 0
        pipeline.run("caught-up")


def refused(pipeline: Pipeline) -> str:
    """What a run says that is not started."""
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 2, result.stdout + result.stderr
    return " ".join(result.stderr.split())


def change(pipeline: Pipeline, before: str, after: str) -> None:
    """Change the spec."""
    pipeline.spec.write_text(pipeline.spec.read_text().replace(before, after))


def test_check_says_what_keeps_a_run_from_continuing(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """A place that another pipeline uses, a damaged destination, a purged position: each as the run would say it."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    for name in ("a", "b"):
        server.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO d.{name} VALUES (1)")
    pipeline = new_pipeline(server, "d")
    assert _faults(pipeline) == {}
    pipeline.run("caught-up")
    assert _faults(pipeline) == {}
    (folder := tmp_path / "other").mkdir()
    other = new_pipeline(server, "d", folder)
    other.spec.write_text(other.spec.read_text().replace('path = "lake"', f'path = "{pipeline.folder / "lake"}"'))
    assert "exists already" in _faults(other)["places of tables"]
    server.execute("CREATE TABLE d.c (id INT PRIMARY KEY)")
    assert "put the pipeline's folder with its ledger back" in refused(other)
    assert not (pipeline.folder / "lake/d/c").exists(), "nothing was created for the tables whose places are free"
    assert not (other.home / "ledger").exists() or not list((other.home / "ledger").iterdir())
    server.execute("DROP TABLE d.c")
    mirror = pipeline.mirror("a")
    mirror.rename(mirror.with_name("elsewhere"))
    assert f"{mirror} is gone" in _faults(pipeline)["published tables"]
    assert pipeline.command("redump", "--table", "d.a").returncode == 0
    assert _faults(pipeline) == {}, "the command replaces the table"
    pipeline.run("caught-up")
    server.execute("INSERT INTO d.a VALUES (2)")
    server.execute("FLUSH BINARY LOGS")
    server.execute(f"PURGE BINARY LOGS TO '{server.execute('SHOW BINARY LOGS')[-1][0]}'")
    fault = _faults(pipeline)["position"]
    refused_run = pipeline.command("run", "--until", "caught-up")
    assert refused_run.returncode == 4
    assert fault.split(".")[0] in " ".join((refused_run.stdout + refused_run.stderr).split())
    assert pipeline.command("redump", "--all").returncode == 0
    assert _faults(pipeline) == {}
    pipeline.run("caught-up")
    assert _faults(pipeline) == {}
    assert_equal(source_table(server, "d", "a"), pipeline.mirror("a"))


def _faults(pipeline: Pipeline) -> dict[str, str]:
    """By check that failed, what is wrong."""
    answer = pipeline.command("check", "--json")
    checks = json.loads(answer.stdout)["checks"]
    faults = {check["name"]: check["actual"] for check in checks if check["outcome"] == "fail"}
    assert answer.returncode == (3 if faults else 0)
    return faults
