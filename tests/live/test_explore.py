"""What the console asks the lake: tables as of a time, the history of one key, and the preview of a redump."""

import json
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow.compute as pc
import pytest

from app.explore.view import row_life
from engine.explore import read
from engine.explore.queries import (
    answer,
    as_of_sql,
    await_published,
    history_sql,
    landing_of,
    merged_seq,
    published_tables,
)
from engine.pipeline.directory import Directory
from engine.spec import settings
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.support.depth import on

ROWS = 3000


@pytest.mark.soak
@on("mysql")
def test_a_table_is_shown_as_it_was_and_a_redump_previews_its_rows(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """At three times between writes and redumps, the answer equals what the source had then."""
    seed_table(server, database, "orders", ROWS)
    pipeline = new_pipeline(server, database, chunk_rows=500, poll=0.6, merge=3.0)
    runner = pipeline.start_streaming()
    were = []
    for seed in (1, 2, 3):
        with Workload(server, database, "orders", seed, rate=300) as load:
            time.sleep(2.0)
        assert load.committed > 50
        time.sleep(1.2)  # MariaDB's log knows whole seconds
        at = server.execute("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]
        were.append((datetime.fromtimestamp(float(at), UTC), source_table(server, database, "orders")))
        time.sleep(1.2)
        if seed == 2:
            ids = sorted(were[-1][1]["id"].to_pylist())
            pipeline.wait_for(partial(_merged, pipeline, ids), runner)
            _check_preview(pipeline, ids)
            assert pipeline.command("redump", "--table", f"{database}.orders").returncode == 0
            pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
    pipeline.finish(runner)

    directory, sink = Directory(pipeline.home), settings.load(pipeline.spec).sink
    (table,) = published_tables(directory)
    await_published(directory, sink, table)
    for at, rows in were:
        sql = as_of_sql(table, at, merged_seq(directory, landing_of(sink), table))
        shown = answer(landing_of(sink), [table], sql).rows
        assert_equal(rows, shown)
    assert not were[0][1].equals(were[2][1]), "nothing was changed between the instants"
    assert_equal(were[-1][1], read(pipeline.spec, f"{database}.orders"))
    _check_history(pipeline, were[-1][1])


def _merged(pipeline: Pipeline, ids: list[int]) -> bool:
    """Whether the mirror has these rows."""
    return sorted(lake_table(pipeline.mirror("orders"))["id"].to_pylist()) == ids


def _check_history(pipeline: Pipeline, rows: Any) -> None:
    """The changes of one row in order, and the row in the mirror."""
    (table,) = published_tables(Directory(pipeline.home))
    log = lake_table(pipeline.changes("orders"))
    changed = log.filter(pc.equal(log["_tm_kind"], "+U"))["id"].to_pylist()
    key = next(value for value in changed if value in set(rows["id"].to_pylist()))
    landing = landing_of(settings.load(pipeline.spec).sink)
    *changes, now = answer(landing, [table], history_sql(table, [str(key)])).rows.to_pylist()
    assert now["_tm_kind"] == "mirror"
    assert [c["_tm_seq"] for c in changes] == sorted(s for k, s in zip(*_columns(log), strict=True) if k == key)
    assert {name: now[name] for name in rows.column_names} == {name: changes[-1][name] for name in rows.column_names}, (
        "its last change is what the mirror has"
    )
    life = row_life.steps([*changes, now], list(rows.column_names))
    assert life is not None
    assert life[-1].title == "Now in the mirror"
    assert sum(step.title == "Updated" for step in life) == sum(c["_tm_kind"] == "+U" for c in changes)
    assert all(step.values for step in life if step.title == "Updated"), "an update without a difference"


def _columns(log: Any) -> tuple[list[int], list[int]]:
    return log["id"].to_pylist(), log["_tm_seq"].to_pylist()


def _check_preview(pipeline: Pipeline, ids: list[int]) -> None:
    """A preview counts the rows in the mirror and sends no command. ids: those in the mirror."""
    name = f"{pipeline.database}.orders"

    def preview(*words: str) -> dict[str, Any]:
        result = pipeline.command("redump", "--table", name, *words, "--dry-run", "--json")
        assert result.returncode == 0, result.stderr
        (one,) = json.loads(result.stdout)["tables"]
        found: dict[str, Any] = one
        return found

    assert (preview()["rows"], preview()["way"]) == (len(ids), "redumped")
    assert preview("--range", "100", "201")["rows"] == sum(100 <= n < 201 for n in ids)
    assert preview("--keys", f"{ids[0]},{ids[-1]},99999999")["rows"] == 2
    assert preview("--chunk", "0")["ranges"][0][0] is None
    assert not pipeline.events("command.accepted"), "a dry run sends nothing"
