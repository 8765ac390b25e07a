"""Verification finds damage of every kind, and reports it exactly.

It reports nothing else, while the source and the mirror change.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.live.conftest import PipelineFactory
from tests.live.support import every_type, schema_changes
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create, kinds
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import depth, on

ROWS, CHUNK_ROWS = 3000, 300


@pytest.fixture
def server(flavor: str, server_with: Callable[..., Server]) -> Server:
    """A server that commits fast, so that there are many transactions."""
    return server_with(flavor, sync_binlog=0, innodb_flush_log_at_trx_commit=0)


def verify(pipeline: Pipeline, *arguments: str, expected: int = 0) -> dict[str, dict[str, Any]]:
    """`verify --json`: its tables by name."""
    result = pipeline.command("verify", *arguments, "--json")
    assert result.returncode == expected, result.stdout[-3000:] + result.stderr[-3000:]
    return {table["table"].partition(".")[2]: table for table in json.loads(result.stdout)["tables"]}


def unlogged(server: Server, statement: str) -> None:
    """Run a statement that the binlog does not have."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(statement)


def verify_error(pipeline: Pipeline) -> dict[str, Any]:
    """The error of `verify --json`, which does not compare anything."""
    result = pipeline.command("verify", "--json")
    assert result.returncode == 2, result.stdout + result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def text(value: Any, *, bits: bool = False) -> str:
    """A key's value as `verify --json` writes it."""
    if bits:
        return str(int.from_bytes(value, "big"))
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def damage(pipeline: Pipeline, name: str, names: Sequence[str], seed: int) -> dict[str, set[tuple[str, ...]]]:
    """Change, delete, add and repeat rows of a mirror at random. Returns the expected keys by kind."""
    chance, folder = random.Random(seed), pipeline.mirror(name)
    rows = lake_table(folder)
    picked = chance.sample(range(rows.num_rows), 12)
    changed, missing, repeated, null = picked[:3], picked[3:6], picked[6:9], picked[9:]

    def keys(numbers: list[int]) -> set[tuple[str, ...]]:
        found = rows.select(list(names)).take(pa.array(numbers)).to_pylist()
        return {tuple(text(row[column], bits=name == "bits") for column in names) for row in found}

    expected = {"different": keys(changed + null), "missing": keys(missing), "duplicate": keys(repeated)}
    numbers, v, note = pa.array(range(rows.num_rows)), rows["v"], rows["note"]
    again = rows.take(pa.array(repeated))
    rows = rows.set_column(
        rows.column_names.index("v"), "v", pc.if_else(_among(numbers, changed), pa.scalar(-77, v.type), v)
    )
    nulls = pa.nulls(len(note), note.type)
    rows = rows.set_column(rows.column_names.index("note"), "note", pc.if_else(_among(numbers, null), nulls, note))
    rows = rows.filter(pc.invert(_among(numbers, missing)))
    write_deltalake(folder, pa.concat_tables([rows, again]).cast(rows.schema), mode="overwrite")
    return expected


def _among(numbers: pa.Array, chosen: list[int]) -> pa.Array:
    return pc.is_in(numbers, pa.array(chosen))


def found_keys(table: dict[str, Any]) -> dict[str, set[tuple[str, ...]]]:
    """The reported keys by kind."""
    kinds_found = {d["kind"] for d in table["differences"]}
    return {kind: {tuple(d["key"]) for d in table["differences"] if d["kind"] == kind} for kind in kinds_found}


@pytest.mark.timeout(600)
def test_damage_of_every_key_is_found_exactly(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Tables of every key type: undamaged ones are verified.

    Changed, missing and repeated rows are reported, and no others.
    """
    known = list(kinds(server))
    for name in known:
        create(server, database, name, ROWS)
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, merge=1.0)
    pipeline.run("caught-up")
    found = verify(pipeline)
    wrong = {n: (t["verdict"], t["why"], t["differences"][:3]) for n, t in found.items() if t["verdict"] != "verified"}
    assert not wrong
    assert {t["rows"] for t in found.values()} == {ROWS}, {n: t["rows"] for n, t in found.items()}
    expected = {name: damage(pipeline, name, KEYED[name].names, n) for n, name in enumerate(known)}
    found = verify(pipeline, expected=6)
    for name in known:
        assert found[name]["verdict"] == "diverged"
        assert found_keys(found[name]) == expected[name], name
        assert found[name]["differences_total"] == 12
        columns = {tuple(d["columns"]) for d in found[name]["differences"] if d["kind"] == "different"}
        assert columns == {("v",), ("note",)}


RUNS = depth(3, 200)
LOADED = ("general", "bin", "falling", "tenant", "uniq", "nullable", "titled", "word")


@pytest.mark.soak
@pytest.mark.timeout(depth(600, 3600))
def test_nothing_is_reported_that_is_not_there(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """No verification reports a difference under 500 transactions a second.

    With merges, resnapshots and schema changes.
    """
    for name in LOADED:
        create(server, database, name, ROWS)
    alterations = depth(["added", "added_default", "widened", "dropped"], list(schema_changes.alterations(server)))
    for name in alterations:
        schema_changes.create(server, database, name, 200)
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0)
    verdicts, chance = Counter[str](), random.Random(0)
    with (
        KeyedWriter(server, database, list(LOADED), ROWS, 500.0) as writer,
        schema_changes.Writer(server, database, alterations, 200) as other,
    ):
        runner = pipeline.start_streaming()
        done = writer.total
        began_s = time.monotonic()
        for run in range(RUNS):
            if run % 4 == 1:
                _resnapshot(pipeline, chance.choice(["nullable", "titled"]))
            if alterations and run % max(RUNS // (len(alterations) + 1), 1) == 1:
                schema_changes.alter(server, database, alterations.pop(), lambda: time.sleep(0.2))
            arguments = ["--level", chance.choice(["rows", "counts"])]
            for table in verify(pipeline, *arguments).values():
                verdicts[table["verdict"]] += 1
                assert not table["differences_total"], table
        rate = (writer.total - done) / (time.monotonic() - began_s)
        _ = other
    pipeline.finish(runner)
    print(f"{rate:.0f} transactions a second, {verdicts}")
    assert rate > 100
    assert verdicts["verified"] > 0.6 * verdicts.total(), verdicts


def _resnapshot(pipeline: Pipeline, name: str) -> None:
    sent = pipeline.command("redump", "--table", f"{pipeline.database}.{name}", "--reason", "test")
    assert sent.returncode == 0, sent.stdout + sent.stderr


def test_the_cause_is_named_and_repaired(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Three writes that bypass the binlog or the pipeline are found, explained and repaired.

    One without a binlog event, an unlogged cascade, and another program's DELETE.
    """
    server.execute(f"CREATE TABLE {database}.parent (id INT PRIMARY KEY, v INT)")
    server.execute(
        f"CREATE TABLE {database}.child (id INT PRIMARY KEY, parent INT, note VARCHAR(20),"
        f" FOREIGN KEY (parent) REFERENCES {database}.parent (id) ON DELETE CASCADE)"
    )
    for n in range(30):
        server.execute(f"INSERT INTO {database}.parent VALUES ({n}, {n})")
        server.execute(f"INSERT INTO {database}.child VALUES ({n}, {n}, 'child {n}')")
    pipeline = new_pipeline(server, database, merge=0.5, mirror="copy_on_write")
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.parent SET v = 100 WHERE id = 1")
    pipeline.run("caught-up")
    assert {t["verdict"] for t in verify(pipeline).values()} == {"verified"}
    unlogged(server, f"UPDATE {database}.parent SET v = 55 WHERE id IN (2, 1)")
    if server.flavor == "mariadb":
        server.execute(f"DELETE FROM {database}.parent WHERE id = 7")  # its child goes without an event
    delta = DeltaTable(pipeline.mirror("child"))
    delta.delete("id = 11")
    delta.update(updates={"note": "'changed'"}, predicate="id = 12")
    runner = pipeline.start()
    pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "running", runner)
    found = verify(pipeline, expected=6)
    causes = {(n, d["kind"], *d["key"]): d["cause"] for n, t in found.items() for d in t["differences"]}
    wanted = {
        ("parent", "different", "1"),
        ("parent", "different", "2"),
        ("child", "missing", "11"),
        ("child", "different", "12"),
    }
    assert causes.keys() == wanted | ({("child", "extra", "7")} if server.flavor == "mariadb" else set())
    assert "without an event in its binlog after" in causes["parent", "different", "1"]
    assert "without an event in its binlog since the copy" in causes["parent", "different", "2"]
    assert "wrote to the mirror" in causes["child", "missing", "11"]
    assert "DELETE" in causes["child", "missing", "11"]
    assert "UPDATE" in causes["child", "different", "12"]
    listed = lake_table(pipeline.folder / "lake" / "_tm_differences")
    assert sorted(zip(listed["table"].to_pylist(), listed["kind"].to_pylist(), strict=True)) == sorted(
        (f"{database}.{name}", kind) for name, kind, _ in causes
    )
    repaired = verify(pipeline, "--repair")
    assert {t["verdict"] for t in repaired.values()} == {"verified"}
    assert {t["verdict"] for t in verify(pipeline).values()} == {"verified"}
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "child"), pipeline.mirror("child"))


@on("mysql")
def test_without_a_runner(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Without a runner, a mirror that lacks changes is lagging, not diverged; a repair runs the pipeline."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    for n in range(20):
        server.execute(f"INSERT INTO {database}.t VALUES ({n}, {n})")
    pipeline = new_pipeline(server, database, merge=0.5)
    assert verify_error(pipeline)["error"] == "SpecError"
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.t SET v = 100 WHERE id < 5")
    server.execute(f"DELETE FROM {database}.t WHERE id = 9")
    found = verify(pipeline)["t"]
    assert (found["verdict"], found["differences_total"]) == ("lagging", 0)
    unlogged(server, f"DELETE FROM {database}.t WHERE id IN (8, 1)")
    found = verify(pipeline, expected=6)["t"]
    assert found_keys(found) == {"extra": {("1",), ("8",)}}
    assert verify(pipeline, "--repair")["t"]["verdict"] == "verified"
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))


def test_every_type_is_compared(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """A damaged value of any type is found, with its column; so is a NULL in its place."""
    chosen = every_type.kinds(server)
    rows = every_type.create(server, database, "types", chosen)
    every_type.insert(server, database, "types", chosen, 0, rows)
    pipeline = new_pipeline(server, database, merge=1.0)
    pipeline.run("caught-up")
    found = verify(pipeline)["types"]
    assert (found["verdict"], found["differences_total"]) == ("verified", 0), found
    folder = pipeline.mirror("types")
    mirror = lake_table(folder).sort_by("id")
    expected: dict[tuple[str, ...], list[str]] = {}
    names = [name for name in mirror.column_names if name != "id" and not name.startswith("_tm_")]
    for number, name in enumerate(names):
        values, row = mirror[name].combine_chunks(), number % mirror.num_rows
        others = [n for n in range(len(values)) if values[n].is_valid and values[n] != values[row]]
        other = values[others[0]] if others and number % 3 else pa.scalar(None, values.type)
        if other.is_valid or values[row].is_valid:
            damaged = pa.concat_arrays([values.slice(0, row), pa.repeat(other, 1), values.slice(row + 1)])
            mirror = mirror.set_column(mirror.column_names.index(name), mirror.schema.field(name), damaged)
            expected.setdefault((str(mirror["id"][row].as_py()),), []).append(name)
    write_deltalake(folder, mirror, mode="overwrite")
    found = verify(pipeline, expected=6)["types"]
    assert {tuple(d["key"]): d["columns"] for d in found["differences"]} == expected
    assert verify(pipeline, "--repair")["types"]["verdict"] == "verified"
