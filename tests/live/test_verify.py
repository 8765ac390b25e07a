"""Verification: damage of every kind is found and reported exactly, and nothing else is, while the source and the mirror change."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from tests.live.conftest import PipelineFactory
from tests.live.support import schema_changes
from tests.live.support.compare import lake_table
from tests.live.support.keyed import KEYED, KeyedWriter, create, kinds
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import depth

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


def text(value: Any) -> str:
    """A key's value as `verify --json` writes it."""
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
        shown = (lambda value: str(int.from_bytes(value))) if name == "bits" else text
        return {tuple(shown(row[column]) for column in names) for row in found}

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
    """Tables of every key type: undamaged ones are verified; changed, missing and repeated rows are reported, and no others."""
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


RUNS = depth(8, 200)
LOADED = ("general", "bin", "falling", "tenant", "uniq", "nullable", "titled", "word")


@pytest.mark.timeout(depth(600, 3600))
def test_nothing_is_reported_that_is_not_there(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Under 500 transactions a second, with merges, resnapshots and schema changes, no verification reports a difference."""
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
