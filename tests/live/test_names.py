"""Quoted names and columns of every kind, through a whole pipeline; a table that cannot be captured stops alone."""

from collections.abc import Callable
from contextlib import closing
from urllib.parse import quote as percent_encoded

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.every_type import session
from tests.servers import Server

DatabaseFactory = Callable[..., str]
# fmt: off
TABLES = (
    "Orders",
    "orders",
    "with space",
    "dot.ted",
    "per%cent",
    "back`tick",
    "quo\"te's", "größe",
    "*bold* [x](y)",
    "文字",
)
COLUMNS = (
    "id",
    "a b",
    "c.d",
    "ti`ck",
    'quo"te',
    "it's",
    "*b* _c_",
    "größe",
    "semi;colon",
    "per%cent",
    "文字",
    "select",
    "{x}=(y),\tz",
)
# fmt: on
UNFIT = ("sla/sh", "表" * 40, "a%2Bb", "x__Changes")
"""Names that no folder of their own can have."""
KIND = ("INT", "DECIMAL(38,2)", "DATETIME NOT NULL")


def test_any_name_and_any_column_reaches_the_lake(
    server: Server, new_database: DatabaseFactory, new_pipeline: PipelineFactory
) -> None:
    """Databases, tables and columns are copied and streamed under their names.

    The names have blanks, dots, quotes and non-ASCII letters.

    Also: a MyISAM table, zero dates that become NULL and are counted, and tables that cannot be captured.
    """
    database = new_database(server, " my.shöp")
    columns = ", ".join(f"{_quoted(name)} {KIND[n % 3]}" for n, name in enumerate(COLUMNS))
    with closing(session(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {_quoted(database)}")
        cursor.execute("CREATE TABLE keyless (v INT)")
        cursor.execute("CREATE TABLE strange (id INT PRIMARY KEY, e ENUM('a') CHARACTER SET binary)")
        cursor.execute("CREATE TABLE reserved (id INT PRIMARY KEY, _TM_SEQ INT)")
        for name in UNFIT:
            cursor.execute(f"CREATE TABLE {_quoted(name)} (id INT PRIMARY KEY)")
        for n, name in enumerate(TABLES):
            engine = "MyISAM" if n == 1 else "InnoDB"
            cursor.execute(f"CREATE TABLE {_quoted(name)} ({columns}, PRIMARY KEY (id)) ENGINE = {engine}")
            for key in range(1, 8):
                cursor.execute(f"INSERT INTO {_quoted(name)} VALUES ({_row(key)})")
        pipeline = new_pipeline(
            server, database, chunk_rows=3, tables=[f"{database}.*"], source='invalid_dates = "null"'
        )
        first = pipeline.command("run", "--until", "snapshot")
        assert first.returncode == 1, first.stdout + first.stderr  # tables stopped, and the run says so
        for name in TABLES:
            cursor.execute(f"UPDATE {_quoted(name)} SET `a b` = `a b` + 1, id = id + 100 WHERE id < 4")
            cursor.execute(f"INSERT INTO {_quoted(name)} VALUES ({_row(50)})")
            cursor.execute(f"DELETE FROM {_quoted(name)} WHERE id = 5")
    second = pipeline.command("run", "--until", "caught-up")
    assert f"{len(UNFIT) + 2} of {len(TABLES) + len(UNFIT) + 3} tables stopped" in " ".join(second.stderr.split())
    lake = pipeline.folder / "lake" / percent_encoded(database, safe="")
    for name in TABLES:
        folder = lake / percent_encoded(name, safe="")
        assert folder.is_dir()
        assert_equal(source_table(server, database, name), folder)
        kinds = lake_table(lake / (percent_encoded(name, safe="") + "__changes"))["_tm_kind"].to_pylist()
        assert sorted(kinds) == ["+I", *["+U"] * 3, *["-D"], *["-U"] * 3]
    tables = {table["table"]: table for table in pipeline.status()["tables"]}
    stopped = {name for name, table in tables.items() if table["state"] == "stopped"}
    assert stopped == {f"{database}.{name}" for name in ("strange", "reserved", *UNFIT)}
    assert tables[f"{database}.keyless"]["state"] == "streaming"
    assert "binary character set" in tables[f"{database}.strange"]["error"]
    assert all(tables[f"{database}.{name}"]["dates_nulled"]["c.d"] > 0 for name in TABLES)
    assert not (lake / "keyless").exists()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _row(key: int) -> str:
    values = {
        "INT": str(key),
        "DECIMAL(38,2)": f"{key}.5",
        "DATETIME NOT NULL": "'0000-00-00'" if key % 2 else "'2024-05-06'",
    }
    return ", ".join(values[KIND[n % 3]] for n in range(len(COLUMNS)))
