"""What is wrong with a table's folder in the destination is ended by what the hint says, word by word."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine.base.errors import DestinationError
from engine.explore import read
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

OLD = 45


def _log(pipeline: Pipeline, table: str) -> list[str]:
    folder = pipeline.mirror(table) / "_delta_log"
    return sorted(str(path) for path in folder.glob("*.json"))


def without_a_vector(pipeline: Pipeline) -> None:
    """A deletion vector with a flipped bit."""
    for path in (pipeline.mirror("vector") / "_dv").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def without_a_commit(pipeline: Pipeline) -> None:
    """A commit in the middle of the log that a power cut tore."""
    os.truncate(_log(pipeline, "commit")[-2], 0)


def with_a_gap(pipeline: Pipeline) -> None:
    """A commit in the middle of the log is gone."""
    Path(_log(pipeline, "gap")[-2]).unlink()


def with_a_feature(pipeline: Pipeline) -> None:
    """Another tool has added a feature that Tidemark does not write."""
    folder = pipeline.mirror("feature")
    version = DeltaTable(str(folder)).version() + 1
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"]}
    action = {"protocol": {**protocol, "writerFeatures": ["columnMapping", "rowTracking"]}}
    (folder / "_delta_log" / f"{version:020d}.json").write_text(json.dumps(action) + "\n")


DAMAGES: dict[str, Callable[[Pipeline], None]] = {
    "vector": without_a_vector,
    "commit": without_a_commit,
    "gap": with_a_gap,
    "feature": with_a_feature,
}


@pytest.mark.soak
@on("mariadb")
def test_a_damaged_destination_is_repaired_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The other tables continue, and what each hint names is done: its table equals the source again."""
    for name in (*DAMAGES, "other"):
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO {database}.{name} VALUES {', '.join(f'({n}, 1)' for n in range(50))}")
    pipeline = new_pipeline(server, database, mirror="merge_on_read")
    pipeline.run("caught-up")
    for key in (1, 2):
        for name in (*DAMAGES, "other"):
            server.execute(f"UPDATE {database}.{name} SET v = 2 WHERE id = {key}")
        pipeline.run("caught-up")
    for damage in DAMAGES.values():
        damage(pipeline)
    for name in (*DAMAGES, "other"):
        server.execute(f"UPDATE {database}.{name} SET v = 9 WHERE id = 2")
    assert repaired(pipeline) == {
        7: {"commit", "feature", "gap"},  # what the run sees before it begins
        1: {"feature", "vector"},
    }
    for name in (*DAMAGES, "other"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))


def repaired(pipeline: Pipeline) -> dict[int, set[str]]:
    """Run and do what the hints say, until a run ends as it should.

    Returns the tables that they named, by exit code.
    """
    found: dict[int, set[str]] = {}
    while (result := pipeline.command("run", "--until", "caught-up")).returncode:
        hints = {
            t["table"].rpartition(".")[2]: t["hint"] for t in pipeline.status()["tables"] if t["state"] == "stopped"
        }
        said = result.stderr.partition("error:")[2] if not hints else " ".join(hints.values())
        tables = sorted(
            set(re.findall(rf"{pipeline.database}\.(\w+)", " ".join(said.split()).partition("redump SPEC")[2]))
        )
        found.setdefault(result.returncode, set()).update(tables)
        for name, hint in hints.items():
            if "Move the folder away" in hint:
                shutil.move(pipeline.mirror(name), pipeline.folder / name)
        arguments = [word for name in tables for word in ("--table", f"{pipeline.database}.{name}")]
        assert pipeline.command("redump", *arguments).returncode == 0
    return found


@on("mariadb")
def test_what_fails_during_a_run_is_repaired_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Data files that are damaged or gone stop their tables.

    A resnapshot also repairs lost commits that no run noticed.
    """
    stopped = {"rotten", "lost", "torn", "gone"}
    names = {*stopped, "other"}
    for name in names:
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO {database}.{name} VALUES {', '.join(f'({n}, 1)' for n in range(50))}")
    settings = {"chunk_rows": 10, "poll": 0.2, "merge": 0.5, "mirror": "merge_on_read"}
    pipeline = new_pipeline(server, database, source='schema_changes = "stop"', **settings)
    runner = pipeline.start_streaming()
    for key in (1, 2, 3):
        update(server, pipeline, names, key)
    damage_data(pipeline)
    with pytest.raises(DestinationError) as refused:
        read(pipeline.spec, f"{database}.lost")
    assert refused.value.hint.endswith(f"tidemark redump SPEC --table {database}.lost")
    for name in names:
        server.execute(f"UPDATE {database}.{name} SET v = 2 WHERE id = {OLD}")
    for name in ("torn", "gone"):
        server.execute(f"ALTER TABLE {database}.{name} MODIFY v BIGINT")
    pipeline.wait_for(lambda: hints(pipeline).keys() == stopped, runner)
    says = hints(pipeline)
    assert "space, permissions, other writers" in says["rotten"]
    assert says["lost"].startswith("Resnapshot the table: tidemark redump SPEC")
    for name in stopped:
        assert f"tidemark redump SPEC --table {database}.{name}" in says[name]
        assert pipeline.command("redump", "--table", f"{database}.{name}").returncode == 0
    pipeline.wait_for(lambda: not hints(pipeline) and pipeline.status()["phase"] == "streaming", runner)
    pipeline.finish(runner)
    for name in names:
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    assert_equal(source_table(server, database, "lost"), read(pipeline.spec, f"{database}.lost"))


def hints(pipeline: Pipeline) -> dict[str, str]:
    """The stopped tables, with what to do."""
    return {t["table"].partition(".")[2]: t["hint"] for t in pipeline.status()["tables"] if t["state"] == "stopped"}


def update(server: Server, pipeline: Pipeline, names: set[str], key: int) -> None:
    """Change a row of each table, and wait until the mirrors have it."""
    for name in names:
        server.execute(f"UPDATE {pipeline.database}.{name} SET v = 2 WHERE id = {key}")
    deadline = time.monotonic() + PATIENCE_S
    for name in names:
        while rows_at(pipeline.mirror(name)).to_pydict()["v"].count(2) < key:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def damage_data(pipeline: Pipeline) -> None:
    """Damage or delete the data file of a row that was not changed yet, and a commit in the middle of the log."""
    for name in ("rotten", "lost"):
        files = map(Path, DeltaTable(str(pipeline.mirror(name))).file_uris())
        (old,) = (file for file in files if OLD in pq.read_table(file, partitioning=None)["id"].to_pylist())
        if name == "rotten":
            old.write_bytes(bytes(old.stat().st_size))
        else:
            old.unlink()
    os.truncate(_log(pipeline, "torn")[-2], 0)
    Path(_log(pipeline, "gone")[-2]).unlink()
