"""No query changes a file: not by its kind, not by a part of it, and not if the text were run unread."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest

from engine.destination.delta.landing import DeltaLanding
from engine.explore import queries
from engine.explore.one_select import TABLE_FUNCTIONS, QueryError, one_select
from engine.explore.queries import answer
from engine.explore.read_only_files import ReadOnlyFiles
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake

STATEMENTS = {
    "ALTER": ["ALTER TABLE d.t RENAME TO u", "COMMENT ON VIEW d.t IS 'x'"],
    "ATTACH": ["ATTACH '{file}'", "ATTACH '{other}' AS x"],
    "CALL": ["CALL range(3)", "CHECKPOINT", "CALL enable_logging(storage = 'file', storage_path = '{other}')"],
    "COPY": [
        "COPY (SELECT 1) TO '{file}'",
        "COPY (SELECT 1) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
        "COPY d.t TO '{other}' (FORMAT csv, PARTITION_BY (id), OVERWRITE_OR_IGNORE)",
        "COPY d.t FROM '{file}'",
    ],
    "CREATE": [
        "CREATE TABLE x AS SELECT * FROM d.t",
        "CREATE OR REPLACE VIEW d.t AS SELECT 1",
        "CREATE MACRO m() AS TABLE SELECT 1",
        "CREATE SECRET (TYPE s3)",
    ],
    "DELETE": ["DELETE FROM d.t", "TRUNCATE d.t"],
    "DETACH": ["DETACH memory"],
    "DROP": ["DROP VIEW d.t"],
    "EXECUTE": ["EXECUTE p"],
    "EXPLAIN": ["EXPLAIN SELECT 1", "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)"],
    "EXPORT": ["EXPORT DATABASE '{other}'"],
    "INSERT": ["INSERT INTO d.t SELECT * FROM d.t"],
    "LOAD": ["LOAD '{file}'", "INSTALL httpfs"],
    "MERGE_INTO": ["MERGE INTO d.t USING d.t AS u ON true WHEN MATCHED THEN DELETE"],
    "MULTI": ["PIVOT d.t ON v"],
    "PRAGMA": [
        "PRAGMA version",
        "IMPORT DATABASE '{other}'",
        "COPY FROM DATABASE memory TO x",
    ],
    "PREPARE": ["PREPARE p AS COPY (SELECT 1) TO '{file}'"],
    "SELECT": [
        "WITH x AS (COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)) SELECT * FROM x",
        "WITH x AS (INSERT INTO d.t VALUES (1) RETURNING *) SELECT * FROM x",
        "WITH x AS (UPDATE d.t SET v = 1 RETURNING *) SELECT * FROM x",
        "WITH x AS (DELETE FROM d.t RETURNING *) SELECT * FROM x",
        "SELECT (WITH x AS (COPY (SELECT 1) TO '{file}') SELECT 1 FROM x)",
        "SELECT * FROM query('COPY (SELECT 1) TO ''{file}''')",
        "SELECT 1 UNION ALL SELECT a FROM (FROM query('SELECT 1 AS a'))",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = '{other}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM main.range(3)",
        "SELECT * FROM arrow_scan(1, 2, 3)",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT 1 WHERE EXISTS (FROM glob('*'))",
    ],
    "SET": [
        "PRAGMA profile_output = '{other}'",
        "SET memory_limit = '1TB'",
        "RESET memory_limit",
        "USE memory",
        "SET VARIABLE x = 1",
    ],
    "TRANSACTION": ["BEGIN", "COMMIT", "ROLLBACK"],
    "UPDATE": ["UPDATE d.t SET v = 1"],
    "VACUUM": ["VACUUM", "ANALYZE"],
}
"""Statements by DuckDB's kinds. file: a data file of the mirror; other: a path beside it."""
UNWRITTEN = {
    "ANALYZE",
    "COPY_DATABASE",
    "CREATE_FUNC",
    "EXTENSION",
    "INVALID",
    "LOGICAL_PLAN",
    "RELATION",
    "VARIABLE_SET",
}
"""Kinds that no text has: DuckDB makes them itself, or parses the text as another kind."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A mirror with rows deleted by vectors, so that DuckDB reads its files itself."""
    made, chance = Lake(tmp_path_factory.mktemp("lake"), "merge_on_read"), random.Random(4)
    made.copy(dict.fromkeys(range(200), 1))
    made.change(made.random_changes(chance, 50, list(range(200))))
    return made


def filled(lake: Lake, text: str) -> str:
    """The statement with the paths of the lake."""
    folder = path_of(lake.pair.mirror.folder)
    return text.replace("{file}", str(next(folder.glob("*.parquet")))).replace("{other}", str(folder / "other"))


def content(lake: Lake) -> dict[str, str]:
    """A digest of every file below the lake."""
    files = sorted(path for path in path_of(lake.pair.mirror.folder.parent).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_kind_of_statement_is_tried() -> None:
    """A kind that a later DuckDB adds fails here until it is tried."""
    assert STATEMENTS.keys() | UNWRITTEN == set(duckdb.StatementType.__members__)
    for kind, texts in STATEMENTS.items():
        for text in texts:
            assert [found.type.name for found in duckdb.extract_statements(text)] == [kind], text


def landing(lake: Lake) -> DeltaLanding:
    """Of its folder."""
    return DeltaLanding(lake.pair.mirror.folder.parent.parent)


@pytest.mark.parametrize("text", [text for texts in STATEMENTS.values() for text in texts])
def test_a_query_changes_no_file(lake: Lake, tmp_path: Path, text: str) -> None:
    """It is refused, with a reason, and the lake is as it was."""
    before = content(lake)
    with pytest.raises(QueryError) as refused:
        answer(landing(lake), [lake.table], filled(lake, text))
    assert refused.value.message
    assert content(lake) == before


def test_a_second_statement_is_refused(lake: Lake) -> None:
    """Also after a comment or an empty statement."""
    for text in ("SELECT 1; SELECT 2", "SELECT 1;; COPY (SELECT 1) TO 'x'", "SELECT 1 /* ; */; -- \n SELECT 2"):
        with pytest.raises(QueryError, match="2 statements"):
            answer(landing(lake), [lake.table], text)


@pytest.fixture
def unread(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection as a query has it, for texts that nothing has looked at."""
    with TemporaryDirectory() as spill, closing(duckdb.connect(":memory:")) as connection:
        queries._show(connection, landing(lake), [lake.table], spill)
        yield connection


@pytest.mark.parametrize("text", [text for texts in STATEMENTS.values() for text in texts if "{" in text])
def test_files_cannot_be_written_even_by_an_unread_text(
    lake: Lake, unread: duckdb.DuckDBPyConnection, text: str
) -> None:
    """The file system behind the views cannot write, by the disk's names and by its own."""
    before = content(lake)
    own = text.replace("{file}", "tidemark://0.parquet")
    for tried in (filled(lake, text), filled(lake, own)):
        for transaction in ("ROLLBACK", "BEGIN TRANSACTION READ ONLY"):
            with closing(unread.cursor()) as cursor:
                for statement in (transaction, tried):
                    try:
                        cursor.execute(statement).fetchall()
                    except (duckdb.Error, PermissionError, FileNotFoundError):
                        continue
    assert content(lake) == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM d.t",
        "FROM d.t SELECT v ORDER BY ALL",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 4) SELECT * FROM n, d.t",
        "SELECT * FROM d.t UNION ALL SELECT * FROM d.t EXCEPT SELECT * FROM d.t",
        "PIVOT d.t ON v IN (1, 2) USING count(*)",
        "DESCRIBE d.t",
        "SUMMARIZE d.t",
        "SHOW TABLES",
        "VALUES (1), (2)",
        "SELECT unnest([1, 2]), (SELECT max(range) FROM range(9))",
        "SELECT * FROM generate_series(1, 3) AS g(n) JOIN d.t ON id = n;",
        "SELECT json_extract('{\"a\": 1}', '$.a'), * FROM json_each('[1]')",
    ],
)
def test_what_reads_is_answered(lake: Lake, text: str) -> None:
    """SELECT in all its forms, and the functions that make rows."""
    assert answer(landing(lake), [lake.table], text).rows.num_columns


def test_the_functions_that_may_be_called_exist() -> None:
    """A name that DuckDB does not know would be a hole for whoever defines it."""
    with closing(duckdb.connect(":memory:")) as connection:
        known = {row[0] for row in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
        assert known >= TABLE_FUNCTIONS
        assert one_select(connection, "SELECT 1").type == duckdb.StatementType.SELECT


def test_a_file_has_a_place_for_each_reader(tmp_path: Path) -> None:
    """Reads are exact wherever another thread reads; nothing opens for writing, nothing else has a name."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(200)))
    files = ReadOnlyFiles()
    name = files.add(LocalFolder(tmp_path), path.name)
    with closing(files.open(name)) as one:
        one.seek(-5, 2)
        assert (one.read(), one.read(), one.tell()) == (bytes(range(195, 200)), b"", 200)
        one.seek(10)
        assert one.read(3) == bytes((10, 11, 12))
    for mode in ("wb", "ab", "r+b", "xb", "w"):
        with pytest.raises(PermissionError):
            files.open(name, mode)
    with pytest.raises(FileNotFoundError):
        files.open(str(path))
