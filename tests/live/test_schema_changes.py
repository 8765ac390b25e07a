"""Schema changes of every kind on tables that are written while a pipeline runs.

Mirror and change log stay equal to the source.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.every_type import statements
from tests.live.support.pipeline import Pipeline
from tests.live.support.schema_changes import ALTERATIONS, Writer, alter, alterations, create
from tests.servers import Server
from tests.support.depth import depth, in_soak

ROWS, CHUNK_ROWS = depth(300, 600), depth(50, 100)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("flavor", "metadata"), [("mysql", "MINIMAL"), in_soak("mariadb", "FULL")])
def test_tables_are_altered_while_they_stream(
    flavor: str,
    metadata: str,
    server_with: Callable[..., Server],
    new_database: Callable[[Server], str],
    new_pipeline: PipelineFactory,
) -> None:
    """Each table, altered under writes, is evolved or resnapshotted as expected, and ends equal to the source."""
    server = server_with(flavor, row_metadata=metadata)
    database, names = new_database(server), list(alterations(server))
    for name in names:
        create(server, database, name, ROWS)
    pipeline = new_pipeline(
        server, database, chunk_rows=CHUNK_ROWS, poll=0.5, merge=2.0, tables=[f"{database}.*", "!*.kept_*", "!*._*"]
    )
    with Writer(server, database, names, ROWS) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("chunk.finished"), runner)
        early, late = names[1::3], [name for n, name in enumerate(names) if n % 3 != 1]
        _alter_all(server, pipeline, early, writer)  # while they are copied for the first time
        pipeline.wait_for(lambda: _streaming(pipeline) >= set(names), runner)
        _alter_all(server, pipeline, late, writer)
        writer.stop()
    pipeline.wait_for(lambda: _all_streaming(pipeline, names), runner)
    pipeline.finish(runner)
    outcomes = {e["table"].partition(".")[2]: e["kind"] for e in pipeline.events("source.event")}
    altered = {name for name in names if ALTERATIONS[name].outcome != ""}
    assert set(outcomes) <= altered
    # A copy that had not begun, with the same columns, needs no other.
    assert altered - set(outcomes) <= {name for name in early if ALTERATIONS[name].outcome in ("resnapshotted", None)}
    expected = {name: ALTERATIONS[name].outcome for name in late if ALTERATIONS[name].outcome}
    assert {name: outcomes[name] for name in expected} == expected
    assert min(writer.written.values()) > 50
    for name in names:
        check(server, pipeline, name)


def _all_streaming(pipeline: Pipeline, names: list[str]) -> bool:
    pipeline.epochs()
    state = pipeline_state(pipeline)
    return all(state[f"{pipeline.database}.{name}"] == "streaming" for name in names)


def pipeline_state(pipeline: Pipeline) -> dict[str, str]:
    """The last state of each table in the journal."""
    return {e["table"]: e["state"] for e in pipeline.events("table.state")}


def check(server: Server, pipeline: Pipeline, name: str) -> None:
    """The mirror, and the last copy's chunks with the changes after them, equal the source; old columns may remain."""
    source = source_table(server, pipeline.database, name)
    mirror = lake_table(pipeline.mirror(name))
    try:
        assert_equal(source, mirror.select([*source.column_names]))
        assert_equal(source, _replayed(pipeline, name, source.schema))
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from None


def _streaming(pipeline: Pipeline) -> set[str]:
    return {e["table"].partition(".")[2] for e in pipeline.events("table.state") if e["state"] == "streaming"}


def _alter_all(server: Server, pipeline: Pipeline, names: list[str], writer: Writer) -> None:
    def pause(name: str) -> None:
        since, deadline = writer.written[name], time.monotonic() + 3
        while writer.written[name] < since + 10 and time.monotonic() < deadline:
            time.sleep(0.05)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(alter, server, pipeline.database, name, partial(pause, name)) for name in names]:
            done.result()
            pipeline.epochs()  # remembered, as the runner forgets them in time
    for name in names:
        pause(name)


def _replayed(pipeline: Pipeline, name: str, schema: pa.Schema) -> pa.Table:
    """The chunks of the table's last copy, each before the first change of its epoch, and all later changes."""
    chunks, next_seq, since = [], 1, 0
    for epoch in pipeline.epochs():
        record = epoch["tables"].get(f"{pipeline.database}.{name}", {})
        for chunk in record.get("chunks", []):
            for file in chunk["files"]:
                rows = pq.read_table(pipeline.mirror(name) / file["name"], partitioning=None)
                seq = pa.array([next_seq - 0.5] * rows.num_rows, pa.float64())
                chunks.append(rows.append_column("seq", seq).append_column("kind", pa.array(["+I"] * rows.num_rows)))
        next_seq = epoch["next_seq"]
        if "resnapshot" in record:
            chunks, since = [], next_seq
    columns, key = ", ".join(f'"{c}"' for c in schema.names), ", ".join(_key(schema))
    empty = (
        schema.empty_table()
        .append_column("seq", pa.array([], pa.float64()))
        .append_column("kind", pa.array([], pa.string()))
    )
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("chunks", pa.concat_tables([empty, *chunks], promote_options="permissive"))
        db.register("log", lake_table(pipeline.changes(name)))
        last = db.sql(f"""
            WITH history AS (SELECT {columns}, seq, kind FROM chunks
                             UNION ALL SELECT {columns}, _tm_seq, _tm_kind FROM log WHERE _tm_seq >= {since})
            SELECT {columns} FROM history
            QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY seq DESC) = 1 AND kind IN ('+I', '+U')
        """).to_arrow_table()
    return last.cast(schema)


def _key(schema: pa.Schema) -> list[str]:
    return [f'"{name}"' for name in ("id", "v2") if name in schema.names]


BACKLOG = {
    "generated": ["ALTER TABLE {t} MODIFY name VARCHAR(50) AS (CONCAT('x', id)) STORED"],
    "moved": [
        "ALTER TABLE {t} ADD COLUMN c INT, ADD COLUMN d INT",
        "INSERT INTO {t} (id, v, c, d) VALUES (9001, 20, 200, 2000)",
        "ALTER TABLE {t} MODIFY d INT AFTER id",
    ],
    "relabelled": [
        "ALTER TABLE {t} ADD c ENUM('a', 'b')",
        "INSERT INTO {t} (id, c) VALUES (9001, 'a')",
        "ALTER TABLE {t} MODIFY c ENUM('b', 'a')",
    ],
    "signed": [
        "ALTER TABLE {t} ADD c INT",
        "INSERT INTO {t} (id, c) VALUES (9001, -1)",
        "ALTER TABLE {t} MODIFY c INT UNSIGNED",
    ],
    "shortened": ["ALTER TABLE {t} MODIFY name VARCHAR(1)", "ALTER TABLE {t} MODIFY name VARCHAR(99)"],
    "made_again": [
        "CREATE TABLE `{d}`.`kept_{n}` AS SELECT id, v + 1 AS v FROM {t}",
        "DROP TABLE {t}",
        "CREATE TABLE {t} AS SELECT * FROM `{d}`.`kept_{n}`",
        "ALTER TABLE {t} ADD PRIMARY KEY (id)",
    ],
    "commented": ["ALTER TABLE `{d}` /* why */ . `{n}` ADD COLUMN c INT NOT NULL DEFAULT 4"],
}


def test_a_backlog_in_which_the_catalog_is_later_than_the_log(
    flavor: str,
    server_with: Callable[..., Server],
    new_database: Callable[[Server], str],
    new_pipeline: PipelineFactory,
) -> None:
    """The catalog is newer than the binlog that is read: no row is decoded by the wrong definition."""
    server = server_with(flavor, row_metadata="MINIMAL")
    database = new_database(server)
    for name in BACKLOG:
        server.execute(ALTERATIONS["added"].create.format(t=f"`{database}`.`{name}`"))
        server.execute(f"INSERT INTO `{database}`.`{name}` (id, v, name) VALUES (1, 1, 'one'), (2, 2, 'two')")
    pipeline = new_pipeline(server, database, tables=[f"{database}.*", "!*.kept_*"])
    pipeline.run("snapshot")
    for name, texts in BACKLOG.items():
        statements(server, *(text.format(t=f"`{database}`.`{name}`", d=database, n=name) for text in texts))()
        server.execute(f"INSERT INTO `{database}`.`{name}` (id, v) VALUES (9002, 3)")
    pipeline.run("caught-up")
    for name in BACKLOG:
        check(server, pipeline, name)


def test_a_pipeline_that_only_streams_loses_nothing_in_silence(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """If the catalog still shows the change, the table streams on; if not, the table stops."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    pipeline = new_pipeline(server, database, source='startup = "latest"')
    pipeline.run("caught-up")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1)")
    server.execute(f"ALTER TABLE `{database}`.t ADD COLUMN a INT DEFAULT 1")
    server.execute(f"INSERT INTO `{database}`.t (id, a) VALUES (2, 22)")
    pipeline.run("caught-up")
    assert _kinds(pipeline) == ["resnapshotted"]
    assert lake_table(pipeline.mirror("t")).select(["id", "v", "a"]).to_pylist() == [{"id": 2, "v": None, "a": 22}]
    assert sorted(lake_table(pipeline.changes("t"))["id"].to_pylist()) == [1, 2]

    for n, text in enumerate(("ADD COLUMN b INT DEFAULT 2", "DROP COLUMN v", "ADD COLUMN c INT DEFAULT 3"), 3):
        server.execute(f"ALTER TABLE `{database}`.t {text}")
        server.execute(f"INSERT INTO `{database}`.t (id) VALUES (%s)", (n,))
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    assert set(_kinds(pipeline)[1:]) == {"stopped"}
    stopped = pipeline_state(pipeline)
    assert stopped == {f"{database}.t": "stopped"}
    assert sorted(lake_table(pipeline.changes("t"))["id"].to_pylist()) == [1, 2]

    assert pipeline.command("redump", "--table", f"{database}.t", "--reason", "continue").returncode == 0
    pipeline.run("caught-up")
    server.execute(f"INSERT INTO `{database}`.t (id, b) VALUES (9, 99)")
    pipeline.run("caught-up")
    rows = lake_table(pipeline.mirror("t")).select(["id", "a", "b", "c"]).to_pylist()
    assert rows == [{"id": 9, "a": 1, "b": 99, "c": 3}]


def _kinds(pipeline: Pipeline) -> list[str]:
    return [e["kind"] for e in pipeline.events("source.event")]
