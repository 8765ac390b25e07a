"""Verification of what is hard to compare: no false difference, no crash, and a repair that ends verified."""

from contextlib import closing
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.live.support.keyed import KEYED, create
from tests.live.support.pipeline import Pipeline
from tests.live.test_verify import damage, found_keys, unlogged, verify
from tests.servers import Server
from tests.support.depth import on

ROWS = 1200
NAMED = ("titled", "nullable", "falling", "general")
DOUBLES = "doubles"
"""Its keys cannot be named."""
MOVING = "moving"
"""Nor can these, and its rows move between chunks: it is repaired by a resnapshot."""
SESSION = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
OTHERS = {
    "added": "id INT PRIMARY KEY, v INT",
    "labels": "id INT PRIMARY KEY, e ENUM('a','b')",
    "emptied": "id INT PRIMARY KEY, v INT",
    "nothing": "id INT PRIMARY KEY, v INT",
    "zeros": "k DOUBLE PRIMARY KEY, v INT",
    "dates": "d DATE PRIMARY KEY, bad DATE, v INT",
    "spelled": "k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, v INT",
    "filtered": "id INT PRIMARY KEY, grp INT, secret VARCHAR(20), mail VARCHAR(20)",
    "vacuumed": "id INT PRIMARY KEY, v INT",
    "gone": "id INT PRIMARY KEY, v INT",
    "dropped": "id INT PRIMARY KEY, v INT",
    MOVING: "k DOUBLE, n INT, place INT NOT NULL, v INT, note VARCHAR(30), PRIMARY KEY (k, n), KEY (place)",
}


def run(server: Server, *statements: str) -> None:
    """Run statements in a session that takes any date."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in (SESSION, *statements):
            cursor.execute(statement)


def fill(server: Server, database: str) -> None:
    """Create the other tables."""
    for name, columns in OTHERS.items():
        run(server, f"CREATE TABLE {database}.{name} ({columns})")
    run(
        server,
        f"INSERT INTO {database}.{MOVING} VALUES "
        + ", ".join(f"({n / 7}, {n}, {n * 31 % 400}, {n}, 'row {n}')" for n in range(400)),
    )
    for name in ("added", "emptied", "vacuumed", "gone", "dropped"):
        run(server, f"INSERT INTO {database}.{name} VALUES " + ", ".join(f"({n}, {n})" for n in range(50)))
    run(
        server,
        f"INSERT INTO {database}.labels VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO {database}.zeros VALUES (0, 1), (1.5, 2), (-1e300, 3), (0.1, 4)",
        f"INSERT INTO {database}.dates VALUES ('0001-01-02', '0000-00-00', 1), ('0500-05-01', '2021-02-31', 2), "
        "('9999-12-31', NULL, 3), ('2020-01-01', '2020-01-01', 4)",
        f"INSERT INTO {database}.spelled VALUES ('a', 1), ('A', 2), ('a b', 3), ('á', 4), ('', 5)",
        f"INSERT INTO {database}.filtered VALUES " + ", ".join(f"({n}, {n % 10}, 's{n}', 'm{n}')" for n in range(100)),
    )


@pytest.mark.soak
@on("mariadb")
@pytest.mark.timeout(300)
def test_what_is_hard_to_compare(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Tables of every odd kind are verified after odd changes; their damage is found, and repaired."""
    for name in (*NAMED, DOUBLES):
        create(server, database, name, ROWS)
    fill(server, database)
    keys = ", ".join(f'"{database}.{n}" = "{k}"' for n in NAMED if (k := KEYED[n].chunk_key))
    keys += f', "{database}.{MOVING}" = "place"'
    rules = f'[tables."{database}.filtered"]\nexclude = ["secret"]\nmask = ["mail"]\nwhere = "grp < 5"\n'
    pipeline = new_pipeline(
        server, database, chunk_rows=200, merge=0.5, source='invalid_dates = "null"',
        snapshot=f"chunk_key = {{ {keys} }}\n{rules}",
    )  # fmt: skip
    pipeline.run("caught-up")
    run(
        server,
        f"ALTER TABLE {database}.added ADD COLUMN more INT DEFAULT 7",
        f"ALTER TABLE {database}.labels MODIFY e ENUM('c','b','a')",
        f"TRUNCATE TABLE {database}.emptied",
        f"UPDATE {database}.zeros SET k = -0e0 WHERE k = 0",
        f"UPDATE {database}.filtered SET grp = 9 - grp WHERE id < 40",
        f"UPDATE {database}.dates SET v = v + 1, bad = '2021-02-30'",
    )
    before = verify(pipeline)
    assert not any(t["differences_total"] for t in before.values()), before
    pipeline.run("caught-up")
    found = verify(pipeline)
    wrong = {n: (t["verdict"], t["why"], t["differences"][:3]) for n, t in found.items() if t["verdict"] != "verified"}
    assert not wrong
    assert (found["emptied"]["rows"], found["nothing"]["rows"], found["dates"]["rows"]) == (0, 0, 4)

    expected = {n: damage(pipeline, n, KEYED[n].names, 7) for n in (*NAMED, DOUBLES)}
    expected[MOVING] = damage(pipeline, MOVING, ("k", "n"), 7)
    delta = DeltaTable(pipeline.mirror("vacuumed"))
    delta.delete("id = 7")
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    rows = lake_table(pipeline.mirror("spelled"))
    extra = pa.table({"k": ["a ", "Á"], "v": [8, 9]}).cast(rows.select(["k", "v"]).schema)
    write_deltalake(pipeline.mirror("spelled"), extra, mode="append", schema_mode="merge")
    unlogged(server, f"UPDATE {database}.dates SET v = 55 WHERE d < '1000-01-01'")
    unlogged(server, f"UPDATE {database}.filtered SET mail = 'x' WHERE id IN (90, 99)")
    found = verify(pipeline, expected=6)
    for name, keyed in expected.items():
        assert found_keys(found[name]) == keyed, name
        assert found[name]["differences_total"] == 12
    assert found_keys(found["vacuumed"]) == {"missing": {("7",)}}
    assert "DELETE" in found["vacuumed"]["differences"][0]["cause"]
    assert found_keys(found["spelled"]) == {"extra": {("a ",), ("Á",)}}
    assert found_keys(found["dates"]) == {"different": {("0001-01-02",), ("0500-05-01",)}}
    assert found_keys(found["filtered"]) == {"different": {("90",)}}
    _check_unreadable(pipeline, database)

    _repair(pipeline, [f"--table={database}.{name}" for name in found])
    run(server, f"DROP TABLE {database}.dropped")
    assert verify(pipeline, f"--table={database}.dropped")["dropped"]["verdict"] == "lagging"


def _check_unreadable(pipeline: Pipeline, database: str) -> None:
    """A mirror whose file is gone, or has another byte, is unverifiable, and its rows are not called different."""
    (file,) = (Path(urlparse(uri).path) for uri in DeltaTable(pipeline.mirror("gone")).file_uris())
    file.rename(file.with_suffix(".away"))
    lost = verify(pipeline, "--table", f"{database}.gone")["gone"]
    assert lost["verdict"] == "unverifiable"
    assert f"tidemark redump SPEC --table {database}.gone" in lost["hint"]
    assert _known(pipeline, "gone").startswith("its mirror cannot be read: ")
    file.with_suffix(".away").rename(file)
    whole = file.read_bytes()
    file.write_bytes(_with_a_changed_byte(file))
    changed = verify(pipeline, "--table", f"{database}.gone")["gone"]
    assert (changed["verdict"], changed["differences_total"]) == ("unverifiable", 0)
    assert f"{file.name} is damaged: " in _known(pipeline, "gone")
    file.write_bytes(whole)
    assert verify(pipeline, "--table", f"{database}.gone")["gone"]["hint"] == ""
    assert _known(pipeline, "gone") == ""


def _with_a_changed_byte(file: Path) -> bytes:
    """A data file's content, with another byte among the values of its last column."""
    content, group = bytearray(file.read_bytes()), pq.read_metadata(file).row_group(0)
    values = group.column(group.num_columns - 1)
    content[values.data_page_offset + values.total_compressed_size // 2] ^= 1
    return bytes(content)


def _known(pipeline: Pipeline, name: str) -> str:
    """Why `status` calls the mirror unverifiable; empty if it does not."""
    (one,) = (table for table in pipeline.status()["tables"] if table["table"] == f"{pipeline.database}.{name}")
    return str(one["verification"]["why"]) if one["verification"]["state"] == "unverifiable" else ""


def _repair(pipeline: Pipeline, chosen: list[str]) -> None:
    """A paused runner does not repair, and the command does not hang; a resumed one repairs everything."""
    runner = pipeline.start()
    pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "running", runner)
    pipeline.wait_for(lambda: _paused(pipeline, "pause"), runner)
    refused = pipeline.command("verify", *chosen[:1], f"--table={pipeline.database}.{MOVING}", "--repair", "--json")
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "is paused" in refused.stdout
    pipeline.wait_for(lambda: _paused(pipeline, "resume"), runner)
    repaired = verify(pipeline, *chosen, "--repair")
    wrong = {
        n: (t["verdict"], t["why"], t["differences"][:3]) for n, t in repaired.items() if t["verdict"] != "verified"
    }
    assert not wrong
    assert {
        name: t["differences_total"] for name, t in verify(pipeline, *chosen).items() if t["differences_total"]
    } == {}
    pipeline.finish(runner)


def _alerted(pipeline: Pipeline, what: str) -> set[str]:
    """The tables whose alert `diverged` was raised, or cleared."""
    return {event["table"] for event in pipeline.events(f"alert.{what}") if event["kind"] == "diverged"}


def _paused(pipeline: Pipeline, verb: str) -> bool:
    """Pause or resume; True once it has happened."""
    if pipeline.events("run.state")[-1]["state"] == ("paused" if verb == "pause" else "running"):
        return True
    pipeline.command(verb, "--reason", "test")  # refused until the runner is there
    return False


@pytest.mark.soak
@on("mariadb")
def test_the_alert_clears_soon_after_a_mirror_can_be_read_again(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The runner looks again by itself, long before the table's turn comes."""
    for name in ("gone", "other"):
        run(server, f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, v INT)")
        run(server, f"INSERT INTO {database}.{name} VALUES (1, 1)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, more="[verify]\nperiod = '30d'\n")
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: {e["table"] for e in pipeline.events("table.verified")} >= _names(database), runner)

    def alerts(event: str) -> bool:
        return "mirror_unreadable" in [one["kind"] for one in pipeline.events(event)]

    (file,) = (Path(urlparse(uri).path) for uri in DeltaTable(pipeline.mirror("gone")).file_uris())
    file.rename(file.with_suffix(".away"))
    assert verify(pipeline, "--table", f"{database}.gone")["gone"]["verdict"] == "unverifiable"
    pipeline.wait_for(lambda: alerts("alert.raised"), runner)
    file.with_suffix(".away").rename(file)
    pipeline.wait_for(lambda: alerts("alert.cleared"), runner)
    pipeline.finish(runner)


def _names(database: str) -> set[str]:
    return {f"{database}.{name}" for name in ("gone", "other")}
