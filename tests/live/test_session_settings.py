"""DDL of sessions with their own character sets and SQL modes, and DDL that cannot change a row."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.depth import depth

COM_QUERY = 3
CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT)"
FILL = "INSERT INTO {t} VALUES (1, 10, 100), (2, 20, 200)"


@dataclass(frozen=True)
class Case:
    """Statements of a session, as the bytes that it sends."""

    charset: str
    statements: Sequence[bytes]
    mode: str = ""


CASES: dict[str, Case] = {
    # A client that sends UTF-8 and says that it is latin1.
    "grÃ¶ÃŸe": Case("latin1", ["TRUNCATE TABLE `größe`".encode(), "INSERT INTO `größe` VALUES (3, 30, 300)".encode()]),
    "größe": Case("latin1", [b"ALTER TABLE gr\xf6\xdfe ADD c INT NOT NULL DEFAULT 7"]),
    "t_模": Case(
        "gbk", [b"ALTER TABLE `t_\xc4\xa3` MODIFY b INT AFTER id", b"INSERT INTO `t_\xc4\xa3` VALUES (3, 300, 30)"]
    ),
    "学员": Case(
        "gbk",
        [
            CREATE.format(t="学2").encode("gbk"),
            "INSERT INTO 学2 VALUES (8, 80, 800)".encode("gbk"),
            "RENAME TABLE 学员 TO 学3, 学2 TO 学员".encode("gbk"),
        ],
    ),
    "표": Case(
        "euckr", [b"DROP TABLE \xc7\xa5", CREATE.format(t="표").encode("cp949"), FILL.format(t="표").encode("cp949")]
    ),
    'we"ird': Case("utf8mb4", [b'TRUNCATE TABLE "we""ird"', b'INSERT INTO "we""ird" VALUES (4, 4, 4)'], "ANSI_QUOTES"),
    # In swe7, `{` is a letter.
    "tä": Case("swe7", [b"TRUNCATE TABLE `t{`"]),
    "plain": Case(
        "utf8mb4",
        [rb"ALTER TABLE plain COMMENT 'C:\dir\', COMMENT '# of items', DROP COLUMN a, ADD COLUMN a INT"],
        "NO_BACKSLASH_ESCAPES",
    ),
    "kept": Case("utf8mb4", [b"INSERT INTO kept VALUES (3, 30, 300)"]),
}


def send(server: Server, database: str, case: Case) -> None:
    """Run statements in a session with these settings."""
    with closing(server.connect(charset="latin1", use_unicode=False, database=database)) as session:
        session.query(f"SET NAMES {case.charset}")
        session.query(f"SET SESSION sql_mode = '{case.mode}'")
        for statement in case.statements:
            session._execute_command(COM_QUERY, statement)
            session._read_query_result()


def outcomes(pipeline: Pipeline) -> dict[str, str]:
    """The last verdict on each table."""
    return {event["table"].partition(".")[2]: event["kind"] for event in pipeline.events("source.event")}


@pytest.mark.parametrize(("flavor", "metadata"), [("mysql", "MINIMAL"), ("mariadb", "FULL"), ("mariadb", "MINIMAL")])
def test_a_statement_is_read_as_its_session_wrote_it(
    flavor: str,
    metadata: str,
    server_with: Callable[..., Server],
    new_database: Callable[[Server], str],
    new_pipeline: PipelineFactory,
) -> None:
    """Names in several character sets, names in double quotes, and a backslash at a text's end: no table is missed."""
    server = server_with(flavor, row_metadata=metadata)
    database = new_database(server)
    for name in CASES:
        quoted = f"`{database}`.`{name}`"
        server.execute(CREATE.format(t=quoted))
        server.execute(FILL.format(t=quoted))
    pipeline = new_pipeline(server, database, tables=[f"{database}.*", "!*.学2", "!*.学3"])
    pipeline.run("snapshot")
    for case in CASES.values():
        send(server, database, case)
    pipeline.run("caught-up")
    for name in CASES:
        source = source_table(server, database, name)
        assert_equal(source, lake_table(pipeline.mirror(name)).select(source.column_names))
    needless = [event for event in pipeline.events("source.event") if event["table"].endswith(".kept")]
    # Why one is made again depends on the catalog and on the server's clock.
    assert needless == [], server.execute(
        "SELECT TABLE_NAME, CREATE_TIME, UNIX_TIMESTAMP(CREATE_TIME), NOW(), UNIX_TIMESTAMP() "
        "FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s",
        (database,),
    )
    assert all(event["position"] and event["statement"] for event in pipeline.events("source.event"))
    assert set(outcomes(pipeline)) == set(CASES) - {"kept"}


HARMLESS = [
    "ALTER TABLE {t} RENAME INDEX i TO j",
    "ALTER TABLE {t} DROP INDEX j",
    "ALTER TABLE {t} DROP FOREIGN KEY f",
    "ALTER TABLE {t} ADD CONSTRAINT c CHECK (v > 0)",
    "ALTER TABLE {t} DROP CONSTRAINT c",
    "ALTER TABLE {t} ROW_FORMAT = DYNAMIC",
    "ALTER TABLE {t} AUTO_INCREMENT = 500",
    "ALTER TABLE {t} COMMENT 'DROP COLUMN v'",
    "ALTER TABLE {t} ADD (x INT, y INT)",
    "ALTER TABLE {t} CHANGE name name VARCHAR(90)",
    "ALTER TABLE {t} MODIFY name VARCHAR(300) DEFAULT 'x'",
    "ALTER TABLE {t} MODIFY v INT DEFAULT 5",
    "ALTER TABLE {t} MODIFY v INT AFTER name",
    "ALTER TABLE {t} ADD UNIQUE u (id, v)",
    "ALTER TABLE {t} ENGINE = InnoDB",
    "ALTER TABLE {t} DROP COLUMN y",
]
INVISIBLE = {"mysql": "ALTER TABLE {t} ALTER INDEX u INVISIBLE", "mariadb": "ALTER TABLE {t} ALTER INDEX u IGNORED"}


@pytest.mark.parametrize(
    ("flavor", "late"),
    [*depth([("mysql", False)], [("mysql", False), ("mariadb", False)]), ("mysql", True), ("mariadb", True)],
)
def test_what_cannot_change_a_row_copies_nothing(
    late: bool, server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Also when later statements are already in the catalog, and with MariaDB's ALTER in two phases."""
    table = f"`{database}`.`t`"
    server.execute(f"CREATE TABLE `{database}`.`parent` (id INT PRIMARY KEY)")
    server.execute(
        f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, v INT, name VARCHAR(20), p INT, INDEX i (v), "
        f"CONSTRAINT f FOREIGN KEY (p) REFERENCES `{database}`.`parent` (id))"
    )
    pipeline = new_pipeline(server, database, poll=0.1)
    pipeline.run("snapshot")
    runner = None if late else pipeline.start_streaming()
    two_phase = server.flavor == "mariadb" and server.execute("SHOW VARIABLES LIKE 'binlog_alter_two_phase'")
    with closing(server.connect()) as session, session.cursor() as cursor:
        if two_phase:
            cursor.execute("SET SESSION binlog_alter_two_phase = ON")
        for n, text in enumerate([*HARMLESS, INVISIBLE[server.flavor]], 1):
            cursor.execute(text.format(t=table))
            cursor.execute(f"INSERT INTO {table} (v, name) VALUES ({n}, '{n}')")
            if runner is not None:
                pipeline.wait_for(partial(_has_changes, pipeline, n), runner)
    if runner is not None:
        pipeline.finish(runner)
    pipeline.run("caught-up")
    assert set(outcomes(pipeline).values()) == {"evolved"}
    source = source_table(server, database, "t")
    assert_equal(source, lake_table(pipeline.mirror("t")).select(source.column_names))


def _has_changes(pipeline: Pipeline, count: int) -> bool:
    """Whether this many changes are committed."""
    return bool(sum(event["changes"] for event in pipeline.events("epoch.committed")) >= count)
