"""Tables with every kind of key, copied in parallel chunks while writes move rows between chunks.

No row is lost or doubled.
"""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create, kinds
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import depth

ROWS, CHUNK_ROWS = depth(1000, 2000), depth(75, 150)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kind_of_key_under_writes(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Each mirror equals the source; so do chunks and changes replayed in the order of the epochs."""
    names = list(kinds(server))
    for name in names:
        create(server, database, name, ROWS)
    configured = ", ".join(f'"{database}.{n}" = "{k.chunk_key}"' for n, k in kinds(server).items() if k.chunk_key)
    pipeline = new_pipeline(
        server, database, chunk_rows=CHUNK_ROWS, merge=5.0, poll=0.8, snapshot=f"chunk_key = {{ {configured} }}"
    )
    with KeyedWriter(server, database, names, ROWS) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: _streaming(pipeline) >= set(names), runner)
        writer.stop()
    pipeline.finish(runner)
    assert all(writer.committed[name] > 20 for name in names), writer.committed
    copied = {name: len(_chunks(pipeline, name)) for name in names}
    assert all(count >= ROWS * 0.5 / CHUNK_ROWS for count in copied.values()), copied
    for name in names:
        key = list(KEYED[name].names)
        source = source_table(server, database, name)
        assert_equal(source.sort_by([(c, "ascending") for c in key]), pipeline.mirror(name), key)
        assert_equal(source.sort_by([(c, "ascending") for c in key]), _replayed(pipeline, name, source.schema), key)


def _streaming(pipeline: Pipeline) -> set[str]:
    return {e["table"].partition(".")[2] for e in pipeline.events("table.state") if e["state"] == "streaming"}


def _chunks(pipeline: Pipeline, name: str) -> list[dict[str, object]]:
    table = f"{pipeline.database}.{name}"
    return [e for e in pipeline.events("chunk.finished") if e["table"] == table]


def _replayed(pipeline: Pipeline, name: str, schema: pa.Schema) -> pa.Table:
    """The rows of the chunks, each before the first change of its epoch, then the last image of each key."""
    parts, next_seq = [], 1
    for epoch in pipeline.epochs():
        for chunk in epoch["tables"].get(f"{pipeline.database}.{name}", {}).get("chunks", []):
            for file in chunk["files"]:
                rows = pq.read_table(pipeline.mirror(name) / file["name"], partitioning=None)
                seq = pa.array([next_seq - 0.5] * rows.num_rows, pa.float64())
                parts.append(rows.append_column("seq", seq).append_column("kind", pa.array(["+I"] * rows.num_rows)))
        next_seq = epoch["next_seq"]
    columns = ", ".join(f'"{column}"' for column in schema.names)
    key = ", ".join(KEYED[name].names)
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("chunks", pa.concat_tables(parts))
        db.register("log", lake_table(pipeline.changes(name)))
        last = db.sql(f"""
            WITH history AS (SELECT {columns}, seq, kind FROM chunks
                             UNION ALL SELECT {columns}, _tm_seq, _tm_kind FROM log)
            SELECT {columns} FROM history
            QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY seq DESC) = 1 AND kind IN ('+I', '+U')
        """).to_arrow_table()
    return last.cast(schema)
