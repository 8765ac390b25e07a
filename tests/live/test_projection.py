"""Row filters, column lists and masks, under writes that move rows in and out: the lake equals the filtered source."""

import hmac
import json
import random
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, lake_table, log_faults, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.traffic import CONFLICTS
from tests.servers import Server
from tests.support.depth import on

ROWS, CHUNK_ROWS = 1500, 100
SECRET, PEPPER = "top-secret", "pepper-of-the-test"
NAMES = ("anna", "Anna", "ANNA", "änna", "zoë", "bob ", "", None)
LEVELS = ("A", "a", "b", "B", None)


@dataclass(frozen=True)
class Projected:
    """A table with its rules, as text of the spec and as DuckDB SQL, which compares texts by their bytes."""

    columns: str
    rules: str
    shown: str
    where: str = "TRUE"
    added: bool = False


_WORDS = "name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, level VARCHAR(5)"
_OTHERS = (
    f"{_WORDS}, grp INT NULL, price DECIMAL(8,2) NOT NULL, odd ENUM('x', 'y') CHARACTER SET binary, secret "
    "VARCHAR(60), mail VARBINARY(60), born DATE"
)
TABLES: dict[str, Projected] = {
    "people": Projected(
        f"id INT PRIMARY KEY, {_OTHERS}",
        'exclude = ["secret", "Born", "odd"]\nmask = ["mail"]\n'
        "where = \"grp BETWEEN 10 AND 60 OR NOT (name IN ('anna', 'zoë') OR price < 300.5)\"",
        "id, name, level, grp, price, digest(mail) AS mail, extra",
        "grp BETWEEN 10 AND 60 OR NOT (name IN ('anna', 'zoë') OR price < 300.5)",
        added=True,
    ),
    "hidden": Projected(
        f"id BIGINT UNSIGNED PRIMARY KEY, {_OTHERS}",
        'columns = ["name", "price"]\nwhere = "level = \'A\' AND grp IS NOT NULL"',
        "id, name, price",
        "level = 'A' AND grp IS NOT NULL",
        added=True,
    ),
    "ranked": Projected(
        f"id INT PRIMARY KEY, place INT NOT NULL, {_OTHERS}, KEY (place)",
        'exclude = ["secret", "born", "mail", "odd"]\n'
        "where = \"grp <> 7 AND (place < 700 OR 900 <= place) AND name > 'B'\"",
        "id, place, name, level, grp, price",
        "grp <> 7 AND (place < 700 OR 900 <= place) AND name > 'B'",
    ),
    "worded": Projected(
        f"k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, id INT, {_OTHERS}, PRIMARY KEY (k, id)",
        'exclude = ["secret", "born", "odd"]\nmask = { mail = "sha256", secret = "sha256" }\n'
        "where = \"level NOT IN ('b', 'A')\"",
        "k, id, name, level, grp, price, digest(mail) AS mail",
        "level NOT IN ('b', 'A')",
    ),
    "keyless": Projected(
        f"id INT, {_OTHERS}",
        'columns = ["id", "grp", "mail"]\nmask = ["mail"]\nwhere = "name IS NULL OR grp IN (1, 2, 3, 4, 5, 6)"',
        "id, grp, digest(mail) AS mail",
        "name IS NULL OR grp IN (1, 2, 3, 4, 5, 6)",
    ),
}
WRITTEN = [name for name in TABLES if name != "keyless"]


@pytest.mark.soak
@pytest.mark.timeout(900)
@on("mysql")
def test_rows_columns_and_masks_are_projected_under_writes(
    server: Server, database: str, new_pipeline: PipelineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table equals the filtered source, and its change log has no gaps.

    No file contains an excluded or masked value.
    """
    monkeypatch.setenv("TM_TEST_PEPPER", PEPPER)
    for name in TABLES:
        _create(server, database, name)
    pipeline = _pipeline(server, database, new_pipeline)
    with Writer(server, database) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.epochs() and _streaming(pipeline) >= set(TABLES), runner)
        for name in (name for name, table in TABLES.items() if table.added):
            server.execute(f"ALTER TABLE `{database}`.`{name}` ADD COLUMN extra INT NULL")
        writer.wait_for(40)
        writer.stop()
    _write_keyless(server, database)
    pipeline.finish(runner)
    assert all(writer.committed[name] > 40 for name in WRITTEN), writer.committed
    assert {e["kind"] for e in pipeline.events("source.event")} == {"evolved"}
    for name in TABLES:
        _check(server, pipeline, name)
    _assert_hidden(pipeline.folder)
    _change_filter(server, pipeline)


def _pipeline(server: Server, database: str, new_pipeline: PipelineFactory) -> Pipeline:
    rules = "\n".join(f'[tables."{database}.{name}"]\n{table.rules}' for name, table in TABLES.items())
    pipeline: Pipeline = new_pipeline(
        server,
        database,
        chunk_rows=CHUNK_ROWS,
        merge=5.0,
        poll=0.8,
        snapshot=f'chunk_key = {{ "{database}.ranked" = "place" }}\n{rules}',
    )
    pipeline.spec.write_text('mask_salt_env = "TM_TEST_PEPPER"\n' + pipeline.spec.read_text())
    return pipeline


def _check(server: Server, pipeline: Pipeline, name: str) -> None:
    expected = _expected(server, pipeline.database, name, TABLES[name].where)
    assert 0 < expected.num_rows < source_table(server, pipeline.database, name).num_rows
    log = lake_table(pipeline.changes(name))
    if name == "keyless":
        assert _counted(expected) == _counted(log, expected.column_names)
        return
    key = ["k", "id"] if name == "worded" else ["id"]
    ordered = expected.sort_by([(column, "ascending") for column in key])
    assert_equal(ordered, pipeline.mirror(name), key)
    kinds = Counter(log["_tm_kind"].to_pylist())
    assert min(kinds[kind] for kind in ("+I", "-U", "+U", "-D")) > 0, kinds
    if name != "ranked":  # its rows move between chunks, and are carried
        snapshot = pipeline.snapshot(name)
        copied = pa.concat_tables([expected.schema.empty_table(), snapshot], promote_options="permissive")
        assert not log_faults(copied.select(expected.column_names).cast(expected.schema), log, key)
    assert_equal(ordered, _replayed(pipeline, name, expected.schema, key), key)


def _expected(server: Server, database: str, name: str, where: str) -> pa.Table:
    """The source, read independently and filtered by DuckDB; Python computes the digests."""
    source = source_table(server, database, name)
    with duckdb.connect() as db:
        db.register("source", source)
        db.create_function("digest", _digest, ["BLOB"], "VARCHAR")
        found = db.sql(f"SELECT {TABLES[name].shown} FROM source WHERE {where}").to_arrow_table()
    types = {field.name: field.type for field in source.schema}
    fields = [pa.field(f.name, pa.string() if f.name == "mail" else types[f.name]) for f in found.schema]
    return found.cast(pa.schema(fields))


def _digest(value: bytes) -> str:
    return hmac.new(PEPPER.encode(), value, "sha256").hexdigest()


def _counted(rows: pa.Table, names: list[str] | None = None) -> Counter[tuple[Any, ...]]:
    """How often each row exists; in a change log, after all its changes."""
    names = names or rows.column_names
    kinds = rows["_tm_kind"].to_pylist() if "_tm_kind" in rows.column_names else ["+I"] * rows.num_rows
    counts: Counter[tuple[Any, ...]] = Counter()
    for row, kind in zip(zip(*(rows[n].to_pylist() for n in names), strict=True), kinds, strict=True):
        counts[row] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in counts.items() if count})


def _replayed(pipeline: Pipeline, name: str, schema: pa.Schema, key: list[str]) -> pa.Table:
    """The rows of the chunks, each before the first change of its epoch, then the last image of each key."""
    parts, next_seq = [schema.empty_table()], 1
    for epoch in pipeline.epochs():
        for chunk in epoch["tables"].get(f"{pipeline.database}.{name}", {}).get("chunks", []):
            for file in chunk["files"]:
                rows = pq.read_table(pipeline.mirror(name) / file["name"], partitioning=None)
                parts.append(rows.append_column("seq", pa.array([next_seq - 0.5] * rows.num_rows, pa.float64())))
        next_seq = epoch["next_seq"]
    columns = ", ".join(f'"{column}"' for column in schema.names)
    with duckdb.connect() as db:
        db.register("chunks", pa.concat_tables(parts, promote_options="permissive"))
        db.register("log", lake_table(pipeline.changes(name)))
        last = db.sql(f"""
            WITH history AS (SELECT {columns}, seq, '+I' AS kind FROM chunks
                             UNION ALL SELECT {columns}, _tm_seq, _tm_kind FROM log)
            SELECT {columns} FROM history
            QUALIFY row_number() OVER (PARTITION BY {", ".join(key)} ORDER BY seq DESC) = 1 AND kind IN ('+I', '+U')
        """).to_arrow_table()
    return last.cast(schema)


def _assert_hidden(folder: Path) -> None:
    """No file of the pipeline, compressed or not, contains an excluded or masked value, or the pepper."""
    forbidden = [word.encode() for word in (SECRET, "@masked", PEPPER)]
    read = 0
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            rows = pq.read_table(path, partitioning=None)
            assert not {"secret", "born", "odd"} & set(rows.column_names), path
            content += b"".join(str(column.to_pylist()).encode() for column in rows.columns)
            read += rows.num_rows
        assert not [word for word in forbidden if word in content], path
    assert read > ROWS


def _change_filter(server: Server, pipeline: Pipeline) -> None:
    """A new filter is refused until the table is resnapshotted on command; then the mirror follows it."""
    text = pipeline.spec.read_text()
    before, after = json.dumps(TABLES["people"].where, ensure_ascii=False), '"price < 500"'
    assert before in text
    pipeline.spec.write_text(
        text.replace(before, after).replace(
            'exclude = ["secret", "Born", "odd"]', 'exclude = ["secret", "born", "odd", "level"]'
        )
    )
    refused = pipeline.command("run", "--until", "caught-up")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    name = f"{pipeline.database}.people"
    assert f"--table {name}" in " ".join((refused.stdout + refused.stderr).split())
    verified = pipeline.command("verify", "--table", name, "--json")
    assert "the spec publishes other rows or columns than the mirror has" in verified.stdout, verified.stdout
    assert verified.returncode == 0, "the mirror is right as it was published"
    assert pipeline.command("redump", "--table", name).returncode == 0
    server.execute(f"UPDATE `{pipeline.database}`.people SET price = 1000 - price")
    pipeline.run("caught-up")
    expected = _expected(server, pipeline.database, "people", "price < 500").drop_columns("level")
    mirror = lake_table(pipeline.mirror("people"))
    assert mirror["level"].null_count == mirror.num_rows
    assert_equal(expected.sort_by("id"), mirror.drop_columns("level"), ["id"])
    server.execute(f"ALTER TABLE `{pipeline.database}`.people DROP COLUMN odd")
    pipeline.run("caught-up")
    checked = pipeline.command("check", "--json")
    assert checked.returncode == 0, "a run does not mind either that the spec excludes a column that was dropped"


def _streaming(pipeline: Pipeline) -> set[str]:
    return {e["table"].partition(".")[2] for e in pipeline.events("table.state") if e["state"] == "streaming"}


def _create(server: Server, database: str, name: str) -> None:
    with _connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"CREATE TABLE `{name}` ({TABLES[name].columns})")
        chance = random.Random(name)
        for n in range(ROWS):
            cursor.execute(*_insert(name, n, chance))
        connection.commit()
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE `{name}`")


def _connected(server: Server, database: str) -> Any:
    connection = server.connect(database=database, charset="utf8mb4", autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")  # for dates that do not exist, in a column that is left out
    return closing(connection)


def _values(name: str, chance: random.Random) -> dict[str, Any]:
    """Random values of the columns outside the key."""
    values = {
        "name": chance.choice(NAMES),
        "level": chance.choice(LEVELS),
        "grp": chance.choice([None, *range(100)]),
        "price": f"{chance.randrange(100_000)}e-2",
        "secret": f"{SECRET} {chance.random()}",
        "mail": chance.choice([None, f"{chance.randrange(300)}@masked".encode()]),
        "odd": chance.choice([None, "x", "y"]),
        "born": chance.choice([None, "0000-00-00", "2001-02-03"]),
    }
    return values | ({"place": chance.randrange(2000)} if name == "ranked" else {})


def _key(name: str, n: int) -> dict[str, Any]:
    return {"k": f"{'aAäBbé'[n % 6]}{n // 5}", "id": n} if name == "worded" else {"id": n}


def _insert(name: str, n: int, chance: random.Random) -> tuple[str, list[Any]]:
    row = _key(name, n) | _values(name, chance)
    marks = ", ".join(["%s"] * len(row))
    return f"INSERT INTO `{name}` ({', '.join(row)}) VALUES ({marks})", list(row.values())


def _write_keyless(server: Server, database: str) -> None:
    with _connected(server, database) as connection, connection.cursor() as cursor:
        for n in range(40):
            cursor.execute(*_insert("keyless", ROWS + n, random.Random(n)))
        cursor.execute("UPDATE keyless SET name = NULL, grp = NULL WHERE id BETWEEN 10 AND 40")
        cursor.execute("UPDATE keyless SET name = 'x' WHERE id BETWEEN 30 AND 60")
        cursor.execute("DELETE FROM keyless WHERE id BETWEEN 50 AND 80")
        connection.commit()


class Writer(Background):
    """Inserts, updates, moves and deletes rows; `committed` counts transactions by table."""

    def __init__(self, server: Server, database: str) -> None:
        super().__init__(threads=2)
        self._server, self._database = server, database
        self.committed = dict.fromkeys(WRITTEN, 0)

    def wait_for(self, count: int) -> None:
        """Wait until each table has that many more transactions."""
        before = dict(self.committed)
        while not self.failures and any(self.committed[name] < before[name] + count for name in WRITTEN):
            self.stopping.wait(0.05)

    def work(self, number: int) -> None:
        """Run random transactions on random tables."""
        chance = random.Random(number)
        with _connected(self._server, self._database) as connection:
            while not self.stopping.wait(0.002):
                name = chance.choice(WRITTEN)
                with suppress(_ConflictError):
                    self._transaction(connection, name, chance)
                    self.committed[name] += 1

    def _transaction(self, connection: Any, name: str, chance: random.Random) -> None:
        try:
            with connection.cursor() as cursor:
                for _ in range(chance.randrange(1, 5)):
                    cursor.execute(*self._statement(name, chance))
            connection.commit()
        except pymysql.err.MySQLError as error:
            connection.rollback()
            if error.args[0] not in CONFLICTS:
                raise
            raise _ConflictError from error

    def _statement(self, name: str, chance: random.Random) -> tuple[str, list[Any]]:
        n, other, what = chance.randrange(ROWS), chance.randrange(2 * ROWS), chance.random()
        key = _key(name, n)
        same = " AND ".join(f"{column} = %s" for column in key)
        if what < 0.2:
            return _insert(name, other, chance)
        if what < 0.3:
            return f"DELETE FROM `{name}` WHERE {same}", list(key.values())
        new = _key(name, other) if what < 0.4 else {}
        values = _values(name, chance)
        new |= {column: values[column] for column in chance.sample(sorted(values), 3)}
        return f"UPDATE `{name}` SET {', '.join(f'{c} = %s' for c in new)} WHERE {same}", [*new.values(), *key.values()]


class _ConflictError(Exception):
    """Another writer was faster."""
