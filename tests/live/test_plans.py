"""Plans on real servers: chunks that contain each row once, and statements that read no more than their range."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.capture.binlog.binlog_reader import gtids_at
from engine.capture.chunk.chunk_reader import ChunkRequest, read_chunk, select_statement
from engine.capture.reader_session import ReaderSession
from engine.decode.schema import Table
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import unsplit_table
from engine.plan.keys import configured_key
from engine.plan.next_chunks import split
from engine.plan.planner import plan_tables
from engine.plan.show import chunks_of, json_parts
from engine.plan.walk import key_statement
from engine.source.catalog import captured_tables, read_table
from engine.source.connect import Connection, Endpoint, describe, open_connection, query
from engine.source.positions import Position, current
from engine.source.watermarks import Candidate, watermark_class
from engine.spec.settings import Snapshot, Source, Spec
from engine.spec.sink_settings import Sink
from engine.store.local_folder import LocalFolder
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, create, kinds
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import PASSWORD, Server
from tests.support.depth import on

ROWS, CHUNK_ROWS = 1000, 60
_SLACK = 8
"""Reads beside the rows: one for each end of a range, and for the ranges that a condition on several columns is made
of."""


@contextmanager
def connected(server: Server) -> Iterator[Connection]:
    """A connection with the engine's session settings."""
    with closing(open_connection(Endpoint(server.host, server.port, "tidemark", PASSWORD))) as connection:
        yield connection


def _read(connection: Connection, statement: str) -> tuple[list[dict[str, Any]], int]:
    """The rows of a statement, and how many rows or index entries the server read for it."""
    before = _handlers(connection)
    rows = query(connection, statement)
    return rows, sum((_handlers(connection) - before).values())


def _handlers(connection: Connection) -> Counter[str]:
    rows = query(connection, "SHOW SESSION STATUS LIKE 'Handler_read%'")
    return Counter({row["Variable_name"]: int(row["Value"]) for row in rows})


def _planned(
    connection: Connection, database: str, names: list[str], settings: dict[str, Any]
) -> Iterator[tuple[Table, Plan]]:
    chosen = {f"{database}.{n}": k.chunk_key for n in names if (k := KEYED[n]).chunk_key}
    tables = [read_table(connection, database, name) for name in names]
    return zip(tables, plan_tables(connection, tables, Snapshot(chunk_key=chosen, **settings)), strict=True)


@pytest.mark.parametrize(
    "settings", [{"even_factor_upper": 1000.0}, {"even_factor_upper": 0.05}], ids=["even", "walked"]
)
def test_each_row_is_in_one_chunk_and_no_statement_reads_more_than_its_range(
    server: Server, database: str, settings: dict[str, Any]
) -> None:
    """For every kind of key: the SELECTs of all chunks return each row once and read no others; likewise the walk."""
    names = list(kinds(server))
    for name in names:
        create(server, database, name, ROWS)
    with connected(server) as connection:
        settings = {"chunk_rows": CHUNK_ROWS, **settings}
        for table, plan in _planned(connection, database, names, settings):
            key, seen = plan.key(table), Counter[tuple[Any, ...]]()
            assert key is not None
            chunks = list(chunks_of(connection, table, plan))
            assert len(chunks) > ROWS * 0.7 / CHUNK_ROWS, (table.name, plan.reason)
            for limits in chunks:
                request = ChunkRequest(table, 0, key, limits, CHUNK_ROWS, LocalFolder(Path()), 0)
                rows, reads = _read(connection, select_statement(request))
                seen.update(tuple(row[c] for c in KEYED[table.name].names) for row in rows)
                assert reads <= len(rows) + _SLACK, (table.name, limits)
                assert len(rows) <= 2 * CHUNK_ROWS or table.name == "nullable", (table.name, limits, len(rows))
                _, reads = _read(connection, key_statement(table, key, Range(limits.lower), CHUNK_ROWS - 1))
                nulls = 0 if limits.lower else _count(connection, table, f"`{key.names[0]}` IS NULL")
                assert reads <= CHUNK_ROWS + nulls + _SLACK, (table.name, limits)
            (count,) = query(connection, f"SELECT COUNT(*) AS n FROM `{database}`.`{table.name}`")
            assert set(seen.values()) == {1}, table.name
            assert len(seen) == count["n"], table.name


def _count(connection: Connection, table: Table, where: str) -> int:
    (row,) = query(connection, f"SELECT COUNT(*) AS n FROM `{table.database}`.`{table.name}` WHERE {where}")
    return int(row["n"])


@pytest.mark.parametrize("rows_per_s", [0.0, 200.0], ids=["at once", "in slices"])
def test_a_reader_stops_at_twice_the_planned_rows(
    server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_s: float
) -> None:
    """For every kind of key: of a range with far more rows, the first are read, up to the key where the rest begins.

    A throttled reader reads slices of 40 rows. Here it does not wait between them.
    """
    names = [name for name in kinds(server) if name != "mixed"]  # its first column alone is no identity
    for name in names:
        create(server, database, name, ROWS)
    endpoint = Endpoint(server.host, server.port, "tidemark", PASSWORD)
    with connected(server) as connection:
        described = describe(connection)
        session = ReaderSession(endpoint, watermark_class(connection, described), settle_s=0.2, first_server_id=6000)
        end = current(connection, described)
        gtids = gtids_at(endpoint, end, 6300) if session.watermarks.kind == "gtid" else None
        session.watermarks.offer(Candidate(Position(end.file, end.offset, gtids), 0.0))
        monkeypatch.setattr(session.pacer, "wait", lambda _: None)
        for table, plan in _planned(connection, database, names, {"chunk_rows": CHUNK_ROWS}):
            seen, limits = [], Range()
            while True:
                folder = LocalFolder(tmp_path / table.name)
                request = ChunkRequest(table, 0, plan.key(table), limits, 200, folder, 1 << 20, rows_per_s=rows_per_s)
                result = read_chunk(session, endpoint, 6300, request)
                assert result.rows < 400 + (ROWS // 9 + 1 if table.name == "nullable" else 0)
                seen += [row for file in result.files for row in _keys(tmp_path / table.name / file.name, table)]
                if result.limits == limits:
                    break
                limits = Range(result.limits.upper)
            assert len(seen) == len(set(seen)) == _count(connection, table, "TRUE"), table.name


def _keys(file: Path, table: Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pq.read_table(file).select(table.key).to_pylist()]


def test_what_has_no_order_of_its_own_is_one_chunk(server: Server, database: str) -> None:
    """ENUM, charsets with several codes per character, and CHAR without padding on MariaDB.

    The plan gives the reason.
    """
    kinds_ = {"ENUM('a', 'b')": "ENUM", "VARCHAR(9) CHARACTER SET cp932": "several codes"}
    if server.flavor == "mariadb":
        kinds_["CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_nopad_ci"] = "ordered otherwise"
    for n, kind in enumerate(kinds_):
        server.execute(f"CREATE TABLE `{database}`.t{n} (k {kind}, n INT, PRIMARY KEY (k, n))")
        server.execute(f"INSERT INTO `{database}`.t{n} VALUES " + ", ".join(f"('a', {i})" for i in range(50)))
    with connected(server) as connection:
        tables = [read_table(connection, database, f"t{n}") for n in range(len(kinds_))]
        for plan, why in zip(plan_tables(connection, tables, Snapshot(chunk_rows=10)), kinds_.values(), strict=True):
            assert (plan.strategy, plan.chunk_key) == ("one", ())
            assert why in plan.reason


def test_a_key_is_continued_only_by_what_the_engine_keeps_behind_it(server: Server, database: str) -> None:
    """By the primary key; by nothing if two keys could be the clustered one, or behind a descending index."""
    more = "v INT NOT NULL, KEY (v)"
    made = {
        "plain": (f"id INT PRIMARY KEY, {more}", ("v", "id")),
        "one": (f"id INT NOT NULL UNIQUE, {more}", ("v", "id")),
        "two": (f"id INT NOT NULL UNIQUE, b INT NOT NULL UNIQUE, {more}", ("v",)),
        "prefix": (f"s VARCHAR(20), id INT NOT NULL UNIQUE, PRIMARY KEY (s(4)), {more}", ("v",)),
        "down": ("id INT PRIMARY KEY, v INT NOT NULL, KEY (v DESC)", ("v",)),
    }
    for name, (columns, _) in made.items():
        server.execute(f"CREATE TABLE `{database}`.`{name}` ({columns})")
    with connected(server) as connection:
        for name, (_, expected) in made.items():
            key = configured_key(read_table(connection, database, name), "v")
            assert key.names == expected, name


@pytest.mark.timeout(300)
def test_keys_that_cannot_be_placed_stop_their_table_alone(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Unassigned codes, surrogates and invalid dates, as bounds and in changes, stop their table; the others continue.

    What the hints say brings them back, or takes them out.
    """
    for name, charset in (("bound", "greek"), ("later", "greek"), ("surrogate", "ucs2"), ("fine", "greek")):
        server.execute(f"CREATE TABLE `{database}`.`{name}` (k VARCHAR(9) CHARACTER SET {charset} PRIMARY KEY)")
        server.execute(f"INSERT INTO `{database}`.`{name}` VALUES " + ", ".join(f"('a{n}?')" for n in range(40)))
    nothing = ", ".join(f"(_greek x'D2{str(n).encode().hex()}')" for n in range(40))
    server.execute(f"INSERT INTO `{database}`.bound VALUES {nothing}")
    server.execute(f"INSERT INTO `{database}`.surrogate VALUES (_ucs2 x'D800')")
    server.execute(f"CREATE TABLE `{database}`.dated (d DATE PRIMARY KEY)")
    with server.connect(database=database, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO dated VALUES ('0000-00-00'), ('2026-01-01')")
    pipeline = new_pipeline(server, database, chunk_rows=10)
    first = pipeline.command("run", "--until", "snapshot")
    assert first.returncode == 1
    stopped = {t["table"].partition(".")[2]: t["error"] for t in pipeline.status()["tables"] if t["error"]}
    assert set(stopped) == {"bound", "dated", "surrogate"}
    assert "does not define" in stopped["bound"]
    server.execute(f"INSERT INTO `{database}`.later VALUES (_greek x'D2')")
    server.execute(f"INSERT INTO `{database}`.fine VALUES ('??')")
    pipeline.command("run", "--until", "caught-up")
    stopped = {t["table"].partition(".")[2]: t["error"] for t in pipeline.status()["tables"] if t["error"]}
    assert set(stopped) == {"bound", "dated", "surrogate", "later"}
    assert "does not define" in stopped["later"]
    _do_what_hints_say(server, pipeline)
    for name in ("fine", "bound", "dated", "later"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))


def _do_what_hints_say(server: Server, pipeline: Pipeline) -> None:
    """Exclude the table with surrogates, correct the values of the others, and resnapshot them."""
    for table in (table for table in pipeline.status()["tables"] if table["error"]):
        name = table["table"]
        leaves = f"tidemark remove-table SPEC --table {name} excludes it" in table["hint"]
        assert f"tidemark redump SPEC --table {name}" in table["hint"]
        assert leaves or (server.flavor, name) == ("mysql", f"{pipeline.database}.surrogate")
        if leaves and name.endswith("surrogate"):
            assert pipeline.command("remove-table", "--table", name).returncode == 0
            continue
        wrong = "YEAR(d) = 0" if name.endswith("dated") else "HEX(k) LIKE 'D2%' OR HEX(k) LIKE 'D8%'"
        server.execute(f"DELETE FROM {name} WHERE {wrong}")
        assert pipeline.command("redump", "--table", name).returncode == 0
    pipeline.run("caught-up")


def test_a_pipeline_that_starts_with_the_log(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """`startup = "latest"` copies nothing; later writes are in change log and mirror, also after a resume."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1)")
    pipeline = new_pipeline(server, database, source='startup = "latest"')
    pipeline.run("caught-up")
    server.execute(f"INSERT INTO `{database}`.t VALUES (2), (3)")
    server.execute(f"DELETE FROM `{database}`.t WHERE id IN (1, 3)")
    pipeline.run("caught-up")
    assert lake_table(pipeline.mirror("t"))["id"].to_pylist() == [2]
    assert sorted(lake_table(pipeline.changes("t"))["_tm_kind"].to_pylist()) == ["+I", "+I", "-D", "-D"]


@pytest.mark.timeout(300)
@on("mysql")
def test_a_table_that_grows_at_its_end_never_has_a_huge_chunk(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The table doubles while one reader copies it: every chunk stays within twice its planned rows."""
    seed_table(server, database, "orders", 12_000)
    pipeline = new_pipeline(server, database, chunk_rows=200, snapshot="readers = 1", poll=0.2)
    with Workload(server, database, "orders", seed=3, rate=100) as load:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("chunk.assigned"), runner)
        _grow(server, database, 12_000)
        pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
        load.stop()
    pipeline.stop(runner)
    rows = [event["rows"] for event in pipeline.events("chunk.finished")]
    planned = {event["table"]: event["estimated_chunks"] for event in pipeline.events("table.planned")}
    assert len(rows) > 1.4 * next(iter(planned.values())), (len(rows), planned)
    assert max(rows) <= 2 * 200, sorted(rows)[-5:]


def _grow(server: Server, database: str, rows: int) -> None:
    for _ in range(rows // 1000):
        server.execute(
            f"INSERT INTO `{database}`.orders (customer_id, sku, quantity, price, status, created_at, score) "
            f"SELECT customer_id, sku, quantity, price, status, created_at, score FROM `{database}`.orders "
            "WHERE id <= 1000"
        )


def test_a_table_without_key_goes_to_its_change_log(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Read while it is written: the copied rows and the changes after them give the source's rows."""
    server.execute(f"CREATE TABLE `{database}`.notes (a INT, b VARCHAR(20))")
    server.execute(
        f"INSERT INTO `{database}`.notes VALUES " + ", ".join(f"({n % 50}, 'note {n % 7}')" for n in range(5000))
    )
    seed_table(server, database, "orders", 1000)
    pipeline = new_pipeline(server, database)
    with Workload(server, database, "orders", seed=4, rate=300) as load:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("run.connected"), runner)
        for n in range(100):
            server.execute(f"INSERT INTO `{database}`.notes VALUES ({n}, 'late'), ({n}, 'late')")
            server.execute(f"UPDATE `{database}`.notes SET a = a + 1 WHERE a = {n % 50} LIMIT 1")
            server.execute(f"DELETE FROM `{database}`.notes WHERE b = 'note 3' LIMIT 2")
        pipeline.wait_for(
            lambda: len([e for e in pipeline.events("table.state") if e["state"] == "streaming"]) == 2, runner
        )
        load.stop()
    server.execute(f"UPDATE `{database}`.notes SET b = NULL WHERE a = 7")
    pipeline.finish(runner)
    log = lake_table(pipeline.changes("notes")).sort_by("_tm_seq").to_pylist()
    held: Counter[tuple[Any, ...]] = Counter()
    for row in log:
        held[row["a"], row["b"]] += 1 if row["_tm_kind"] in ("+I", "+U") else -1
        assert held[row["a"], row["b"]] >= 0, row
    source = Counter(server.execute(f"SELECT a, b FROM `{database}`.notes"))
    assert +held == source
    assert not pipeline.mirror("notes").exists()
    assert "change log only" in json.dumps(pipeline.events("table.planned"))


def test_a_schema_of_many_tables_is_planned_from_statistics(server: Server, database: str) -> None:
    """The number of statements does not grow with the tables, and none reads a table."""
    for n in range(40):
        server.execute(f"CREATE TABLE `{database}`.t{n} (id INT PRIMARY KEY, v VARCHAR(10), KEY (v))")
    with connected(server) as connection:
        before = _questions(connection)
        tables = captured_tables(connection, [f"{database}.*"])
        spec = Spec(
            name="p",
            source=Source(host="h", user="u", tables=("d.*",)),
            sink=Sink(path=Path("lake")),
            snapshot=Snapshot(),
        )
        parts = "".join(json_parts(connection, tables, spec, exact=False))
        asked = _questions(connection) - before
    plans = json.loads(parts)["tables"]
    assert [plan["table"] for plan in plans] == [table.full_name for table in tables]
    assert all(plan["chunks"] is None and plan["chunk_key"] == ["id"] for plan in plans)
    assert asked < 12, asked


def test_statistics_from_before_a_bulk_load_are_called_outdated(server: Server, database: str) -> None:
    """The plan has the statement that renews them, and says nothing of them after that."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY) STATS_AUTO_RECALC = 0")
    server.execute(f"ANALYZE TABLE {database}.t")
    server.execute(f"INSERT INTO {database}.t VALUES " + ", ".join(f"({n})" for n in range(3000)))
    with connected(server) as connection:
        loaded = read_table(connection, database, "t")
        (plan,) = plan_tables(connection, [loaded], Snapshot())
        assert "by them, a row has 5.5 bytes. Renew them: " in plan.reason
        server.execute(plan.reason[plan.reason.index("ANALYZE TABLE") :].partition(";")[0])
    with connected(server) as connection:
        (plan,) = plan_tables(connection, [loaded], Snapshot())
        assert plan.approx_rows == pytest.approx(3000, rel=0.1)
        assert "outdated" not in plan.reason


def _questions(connection: Connection) -> int:
    return int(query(connection, "SHOW SESSION STATUS LIKE 'Questions'")[0]["Value"])


def test_a_hundred_million_rows_by_statistics_are_split_one_chunk_at_a_time(private_server: Any, flavor: str) -> None:
    """The plan lists no chunks, and the walk's first chunk reads only its own range of the index."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (k VARCHAR(20) PRIMARY KEY) STATS_AUTO_RECALC = 0")
    server.execute("INSERT INTO d.t VALUES " + ", ".join(f"('key {n:06d}')" for n in range(5000)))
    server.execute("ANALYZE TABLE d.t")
    server.execute(
        "UPDATE mysql.innodb_table_stats SET n_rows = 100000000 WHERE database_name = 'd' AND table_name = 't'"
    )
    server.restart()
    with connected(server) as connection:
        table = read_table(connection, "d", "t")
        (plan,) = plan_tables(connection, [table], Snapshot(chunk_rows=200))
        assert (plan.strategy, plan.approx_rows, plan.estimated_chunks) == ("uneven", 100_000_000, 500_000)
        before = _handlers(connection)
        split(connection, table, plan.key(table), plan, unsplit_table(plan).unsplit[0], 1, 0.2)
        assert sum((_handlers(connection) - before).values()) <= 200 + _SLACK
