"""Redumps of parts of tables on command, under writes: damaged rows are corrected, all others stay unchanged."""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server
from tests.support.depth import depth, on

ROWS, WRITTEN, CHUNK_ROWS = 3000, 2000, 300
NAMES = ("general", "bin", "falling", "tenant")
INVENTED = 10_000_000
UNREADABLE = ("lost", "logless", "damaged")
"""Mirrors that lose a data file or their log, or whose only data file is zeroes."""


RATE = depth(200.0, 1000.0)
"""Transactions a second that are tried; those that change nothing do not count."""


@pytest.fixture
def server(flavor: str, server_with: Callable[..., Server]) -> Server:
    """A server that commits fast, so that there are many transactions."""
    return server_with(flavor, sync_binlog=0, innodb_flush_log_at_trx_commit=0)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_what_was_damaged_is_right_again(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """A chunk, ranges of texts and of two columns, a list of keys, a table, everything.

    Each replaces its rows and no others.
    """
    for name in NAMES:
        create(server, database, name, ROWS)
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, poll=0.8, merge=3.0)
    with KeyedWriter(server, database, list(NAMES), WRITTEN, RATE) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.events("table.state")) >= 2 * len(NAMES), runner)
        pipeline.wait_for(
            lambda: all(lake_table(pipeline.mirror(name)).num_rows > 0.8 * ROWS for name in NAMES), runner
        )
        damaged = {name: _damage(pipeline, name, runner) for name in NAMES}
        before, began = writer.total, time.monotonic()
        _redump(pipeline, runner, "falling", "--chunk", str(damaged["falling"]["chunk"]))
        for name in ("general", "tenant"):
            _redump(pipeline, runner, name, "--range", damaged[name]["lower"] or "", damaged[name]["upper"] or "")
        keys = pipeline.folder / "keys.txt"
        keys.write_text("\n".join(json.dumps([k, str(n)]) for k, n in damaged["bin"]["keys"]), encoding="utf-8")
        done = _redump(pipeline, runner, "bin", "--keys", str(keys))
        made, took_s = writer.total - before, time.monotonic() - began
        assert str(damaged["bin"]["invented"]) in [key[1] for key in done["result"]["missing"]]
        writer.stop()
    pipeline.finish(runner)
    print(f"{made:,} transactions in {took_s:.1f} s of redumps: {made / took_s:.0f} a second")
    assert made > depth(300, 1000), "as many as are asked for, or as the machine can make"
    assert all(writer.committed[name] > 200 for name in NAMES), writer.committed
    for name in NAMES:
        _check_log(pipeline, name, damaged[name]["invented"])
        source, mirror = source_table(server, database, name), lake_table(pipeline.mirror(name))
        other = damaged[name]["other"]
        assert _value(mirror, name, other) == -77, "what was not asked for is as it was"
        assert_equal(_without(source, name, other), _without(mirror, name, other), KEYED[name].names)
    _read_whole_again(server, pipeline)


def _read_whole_again(server: Server, pipeline: Pipeline) -> None:
    """After more damage, redump a table and then everything, while as many transactions are written."""
    with KeyedWriter(server, pipeline.database, list(NAMES), WRITTEN, RATE) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "running", runner)
        for name in NAMES:
            pipeline.wait_for(partial(_committed, lambda mirror: mirror.delete("v = 0"), pipeline, name), runner)
        before, began = writer.total, time.monotonic()
        _redump(pipeline, runner, "falling")
        pipeline.wait_for(partial(_has_all_unwritten, pipeline, "falling"), runner)
        _redump(pipeline, runner)
        made, took_s = writer.total - before, time.monotonic() - began
        writer.stop()
    pipeline.finish(runner)
    print(f"{made:,} transactions in {took_s:.1f} s of whole redumps: {made / took_s:.0f} a second")
    assert made > depth(300, 1000), "as many as are asked for, or as the machine can make"
    for name in NAMES:
        assert_equal(source_table(server, pipeline.database, name), pipeline.mirror(name), KEYED[name].names)


def _has_all_unwritten(pipeline: Pipeline, name: str) -> bool:
    """Whether the mirror has the rows that no transaction writes."""
    notes = set(lake_table(pipeline.mirror(name))["note"].to_pylist())
    return notes >= {f"row {n}" for n in range(WRITTEN, ROWS)}


@pytest.mark.soak
@on("mariadb")
def test_a_killed_runner_leaves_no_command_half_done(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The next runner starts the redump again; an impossible one is refused with the reason and changes nothing.

    A whole redump of a mirror that cannot be read resnapshots it; a part of it is refused.
    """
    create(server, database, "general", ROWS)
    for name in UNREADABLE:
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO `{database}`.{name} VALUES (1, 1), (2, 2), (3, 3)")
    server.execute(f"CREATE TABLE `{database}`.keyless (v INT)")
    pipeline = new_pipeline(server, database, chunk_rows=30, poll=0.8, merge=3.0)
    with KeyedWriter(server, database, ["general"], WRITTEN, RATE):
        runner = pipeline.start(killed=True)
        pipeline.wait_for(lambda: len(pipeline.events("table.state")) >= 4 + 2 * len(UNREADABLE), runner)
        damaged = _damage(pipeline, "general", runner)
        name = f"{database}.general"
        assert pipeline.command("redump", "--table", name, "--reason", "killed on the way").returncode == 0
        pipeline.wait_for(lambda: pipeline.events("redump.chunk"), runner)
        runner.kill()
        runner.wait()
        assert not pipeline.events("command.done")
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
        upper = damaged["upper"] or damaged["lower"]
        for wrong in (
            ["--chunk", "99999"],
            ["--range", upper, upper],
            ["--keys", "a,b"],
            ["--chunk", "1", "--keys", "a"],
        ):
            refused = pipeline.command("redump", "--table", name, *wrong)
            assert refused.returncode == (0 if wrong[0] == "--range" else 2), refused.stderr
        assert pipeline.command("redump", "--table", f"{database}.keyless").returncode == 0
        pipeline.wait_for(lambda: len(pipeline.events("command.refused")) == 2, runner)
    for name in UNREADABLE:
        _replace_unreadable(pipeline, runner, name)
    pipeline.finish(runner)
    for name in UNREADABLE:
        assert_equal(source_table(server, database, name), pipeline.mirror(name), ["id"])
    messages = " ".join(e["message"] for e in pipeline.events("command.refused"))
    assert "is empty" in messages
    assert "has no key" in messages
    assert_equal(source_table(server, database, "general"), pipeline.mirror("general"), KEYED["general"].names)
    assert {table["state"] for table in pipeline.status()["tables"]} == {"streaming"}


def _replace_unreadable(pipeline: Pipeline, runner: Runner, name: str) -> None:
    """Take away or damage what a mirror is read from; a redump of the whole table resnapshots it, in one command."""
    (path,) = pipeline.mirror(name).glob("*.parquet")
    full = f"{pipeline.database}.{name}"
    if name == "damaged":  # found only when its rows are read
        path.write_bytes(bytes(path.stat().st_size))
    elif name == "logless":
        shutil.rmtree(pipeline.mirror(name) / "_delta_log")
    else:
        path.unlink()
        (shown,) = json.loads(pipeline.command("redump", "--dry-run", "--json", "--table", full).stdout)["tables"]
        assert shown["way"] == "resnapshotted"
        assert "its mirror cannot be read" in shown["why"]
        before = len(pipeline.events("command.refused"))
        assert pipeline.command("redump", "--table", full, "--keys", "2").returncode == 0
        pipeline.wait_for(lambda: len(pipeline.events("command.refused")) > before, runner)
        refused = pipeline.events("command.refused")[-1]
        assert "its mirror cannot be read" in refused["message"]
        assert f"tidemark redump SPEC --table {full}" in refused["message"]
    done = _redump(pipeline, runner, name)
    assert done["result"]["begun"] == [full]


def _redump(pipeline: Pipeline, runner: Runner, name: str = "", *part: str) -> dict[str, Any]:
    """Redump a table, or everything without a name; returns the event that reports its end."""
    what = ["--table", f"{pipeline.database}.{name}"] if name else ["--all"]
    sent = pipeline.command("redump", "--json", *what, *part, "--reason", "damaged")
    assert sent.returncode == 0, sent.stderr
    identity = json.loads(sent.stdout)["id"]

    def answer() -> list[dict[str, Any]]:
        return [e for e in pipeline.events("command.done", "command.refused") if e["id"] == identity]

    pipeline.wait_for(answer, runner)
    (event,) = answer()
    assert event["event"] == "command.done", event
    return event


def _damage(pipeline: Pipeline, name: str, runner: Runner) -> dict[str, Any]:
    """Behind Tidemark's back: change, delete and invent rows of one chunk, and change one row of another."""
    chunks = [e for e in pipeline.events("chunk.finished") if e["table"] == f"{pipeline.database}.{name}" and e["file"]]
    chunk = chunks[len(chunks) // 2]
    key, last = KEYED[name].names, KEYED[name].names[-1]
    there = {tuple(row.values()) for row in lake_table(pipeline.mirror(name)).select(key).to_pylist()}

    def rows_of(event: dict[str, Any]) -> list[dict[str, Any]]:
        rows = pq.read_table(pipeline.mirror(name) / event["file"], partitioning=None).to_pylist()
        return [row for row in rows if tuple(row[k] for k in key) in there]

    rows = rows_of(chunk)
    others = [row for event in chunks if event["chunk"] != chunk["chunk"] for row in rows_of(event)]
    other = next(row for row in others if int(row["note"].partition(" ")[2]) >= WRITTEN)  # nobody writes to it
    changed, deleted = [row[last] for row in rows[:40:2]], [row[last] for row in rows[1:40:2]]
    invented = rows[5] | {last: _new(name, rows[5][last]), "v": 5}
    schema = lake_table(pipeline.mirror(name)).schema
    damages: list[Callable[[DeltaTable], object]] = [
        lambda mirror: mirror.update({"v": "-1"}, predicate=f"{last} IN ({', '.join(map(str, changed))})"),
        lambda mirror: mirror.delete(f"{last} IN ({', '.join(map(str, deleted))})"),
        lambda mirror: write_deltalake(mirror, pa.Table.from_pylist([invented], schema=schema), mode="append"),
        lambda mirror: mirror.update({"v": "-77"}, predicate=f"{last} = {other[last]}"),
    ]
    for damage in damages:
        pipeline.wait_for(lambda damage=damage: _committed(damage, pipeline, name), runner)  # type: ignore[misc]
    keys = [tuple(row[k] for k in key) for row in [*rows[:40], invented]]
    return {**chunk, "keys": keys, "other": other, "invented": invented[last]}


def _new(name: str, last: int) -> int:
    """An unused last key column in the same chunk, which no row will get."""
    if name == "tenant":  # only numbers that end in 0 belong to others than tenant 4
        return next(n for n in range(last + 1, last + 99) if n % 10 == 0 and n % 7 != 4)
    return last + 1 if name == "falling" else last + INVENTED


def _committed(damage: Callable[[DeltaTable], object], pipeline: Pipeline, name: str) -> bool:
    with suppress(CommitFailedError):
        damage(DeltaTable(str(pipeline.mirror(name))))
        return True
    return False


def _check_log(pipeline: Pipeline, name: str, invented: int) -> None:
    """Redumped rows are marked, the invented row was deleted as a ghost, and `_tm_seq` is unique."""
    log = lake_table(pipeline.changes(name))
    seqs = log["_tm_seq"].to_pylist()
    assert len(set(seqs)) == len(seqs)
    marked = [row for row in log.to_pylist() if row["_tm_redump"]]
    assert {row["_tm_kind"] for row in marked} == {"+I", "-D"}
    last = KEYED[name].names[-1]
    assert [row["v"] for row in marked if row["_tm_kind"] == "-D" and row[last] == invented] == [5]
    assert len(marked) >= 20
    table, epochs = f"{pipeline.database}.{name}", pipeline.events("epoch.committed")
    assert sum(sum(epoch["redumped"].get(table, ())) for epoch in epochs) == len(marked), "no changes of the source"


def _value(table: pa.Table, name: str, row: dict[str, Any]) -> Any:
    return next(r["v"] for r in table.to_pylist() if all(r[k] == row[k] for k in KEYED[name].names))


def _without(table: pa.Table, name: str, row: dict[str, Any]) -> pa.Table:
    rows = table.to_pylist()
    kept = [n for n, r in enumerate(rows) if any(r[k] != row[k] for k in KEYED[name].names)]
    return table.take(pa.array(kept))
