"""What is wrong with a table's folder in the destination is ended by what the hint says, word by word."""

import json
import os
import re
import shutil
from collections.abc import Callable

from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import on


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
    "feature": with_a_feature,
}


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
        7: {"commit", "feature"},  # what the run sees before it begins
        1: {"feature", "vector"},
    }
    for name in (*DAMAGES, "other"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))


def repaired(pipeline: Pipeline) -> dict[int, set[str]]:
    """Run and do what the hints say, until a run ends as it should. Returns the tables that they named, by exit code."""
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
