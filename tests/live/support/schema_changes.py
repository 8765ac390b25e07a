"""Tables that are altered in every way while they are copied and streamed, and writers that do not adapt to it."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from tests.live.support.background import Background
from tests.servers import Server

CREATE = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(20) CHARACTER SET utf8mb4, state ENUM('new', "
    "'old'), note TEXT)"
)
# A writer that meets an altered table: no such table or column, a lock, a deadlock, a duplicate, a value that does not
# fit.
_EXPECTED = (1046, 1054, 1062, 1064, 1136, 1146, 1205, 1213, 1264, 1265, 1366, 1406, 1412, 1032, 1049, 1305, 1526, 1748)


@dataclass(frozen=True)
class Alteration:
    """The schema changes of one table.

    statements: with `{t}` for the table, `{d}` for its database and `{n}` for its name; executed in turn, with writes
    in between. outcome: the kind of the source event at the end, such as resnapshotted; None if it depends on how far
    the pipeline is behind, and empty if there is none, because the statement changes nothing that a reader of the table
    sees. create: the statement that creates the table, if it is not the usual one.
    """

    statements: tuple[str, ...]
    outcome: str | None
    create: str = CREATE
    only: str | None = None


ALTERATIONS: dict[str, Alteration] = {
    "added": Alteration(("ALTER TABLE {t} ADD COLUMN extra INT",), "evolved"),
    "added_first": Alteration(
        ("ALTER TABLE {t} ADD COLUMN extra VARCHAR(10) FIRST, ADD COLUMN more JSON AFTER v",), "evolved"
    ),
    "added_instant": Alteration(("ALTER TABLE {t} ADD COLUMN extra BIGINT AFTER id, ALGORITHM=INSTANT",), "evolved"),
    "added_default": Alteration(("ALTER TABLE {t} ADD COLUMN extra INT NOT NULL DEFAULT 7",), "resnapshotted"),
    "added_now": Alteration(
        ("ALTER TABLE {t} ADD COLUMN extra DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",), "resnapshotted"
    ),
    "generated": Alteration(("ALTER TABLE {t} ADD COLUMN twice INT AS (v * 2) STORED",), "resnapshotted"),
    "dropped": Alteration(("ALTER TABLE {t} DROP COLUMN note",), "evolved"),
    "dropped_added": Alteration(("ALTER TABLE {t} DROP COLUMN note", "ALTER TABLE {t} ADD COLUMN note TEXT"), None),
    "renamed_column": Alteration(("ALTER TABLE {t} RENAME COLUMN note TO remark",), "resnapshotted"),
    "swapped_names": Alteration(
        ("ALTER TABLE {t} CHANGE a b INT, CHANGE b a INT",),
        "resnapshotted",
        "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(20), a INT DEFAULT 1, b INT DEFAULT 2)",
    ),
    "widened": Alteration(("ALTER TABLE {t} MODIFY v BIGINT",), "resnapshotted"),
    "unsigned": Alteration(("ALTER TABLE {t} MODIFY v INT UNSIGNED",), "resnapshotted"),
    "to_text": Alteration(("ALTER TABLE {t} MODIFY v VARCHAR(30)",), "resnapshotted"),
    "longer": Alteration(("ALTER TABLE {t} MODIFY name VARCHAR(200) CHARACTER SET utf8mb4",), "evolved"),
    "reordered": Alteration(("ALTER TABLE {t} MODIFY v INT AFTER note",), "evolved"),
    "charset": Alteration(("ALTER TABLE {t} CONVERT TO CHARACTER SET latin1",), "resnapshotted"),
    "labels": Alteration(("ALTER TABLE {t} MODIFY state ENUM('new', 'old', 'gone')",), "evolved"),
    "labels_moved": Alteration(("ALTER TABLE {t} MODIFY state ENUM('old', 'new', 'gone')",), "resnapshotted"),
    "key": Alteration(
        ("ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v2)",),
        "resnapshotted",
        "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(20), v2 INT NOT NULL DEFAULT 3)",
    ),
    "indexed": Alteration(
        ("ALTER TABLE {t} ADD INDEX (v), ADD UNIQUE KEY u (id, v)", "ALTER TABLE {t} DROP INDEX u"), "evolved"
    ),
    "truncated": Alteration(("TRUNCATE TABLE {t}",), "resnapshotted"),
    "ghost": Alteration(
        (
            "CREATE TABLE `{d}`.`_{n}_gho` LIKE {t}",
            "ALTER TABLE `{d}`.`_{n}_gho` ADD COLUMN extra INT NOT NULL DEFAULT 5",
            "INSERT IGNORE INTO `{d}`.`_{n}_gho` (id, v, name, state, note) SELECT id, v, name, state, note FROM {t}",
            "RENAME TABLE {t} TO `{d}`.`_{n}_del`, `{d}`.`_{n}_gho` TO {t}",
            "DROP TABLE `{d}`.`_{n}_del`",
        ),
        "resnapshotted",
    ),
    "recreated": Alteration(
        ("DROP TABLE {t}", "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(5), other DATE)"), "resnapshotted"
    ),
    "away_and_back": Alteration(
        (
            "RENAME TABLE {t} TO `{d}`.`kept_{n}`",
            "UPDATE `{d}`.`kept_{n}` SET v = v + 1",
            "RENAME TABLE `{d}`.`kept_{n}` TO {t}",
        ),
        "resnapshotted",
    ),
    "partitions": Alteration(
        ("ALTER TABLE {t} ADD PARTITION (PARTITION p9 VALUES LESS THAN (100000000))",),
        "",
        "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(20)) PARTITION BY RANGE (id) (PARTITION p1 VALUES "
        "LESS THAN (200), PARTITION p2 VALUES LESS THAN (50000000))",
    ),
    "partition_dropped": Alteration(
        ("ALTER TABLE {t} DROP PARTITION p1",),
        "resnapshotted",
        "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(20)) PARTITION BY RANGE (id) (PARTITION p1 VALUES "
        "LESS THAN (200), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    ),
    "twice": Alteration(
        (
            "ALTER TABLE {t} ADD COLUMN c INT",
            "ALTER TABLE {t} MODIFY c INT UNSIGNED",
            "ALTER TABLE {t} ADD COLUMN d INT",
        ),
        None,
    ),
}


def alterations(server: Server) -> dict[str, Alteration]:
    """The alterations that this server supports."""
    return {name: a for name, a in ALTERATIONS.items() if a.only in (None, server.flavor)}


def create(server: Server, database: str, name: str, rows: int) -> None:
    """Create the table with rows 0 to `rows` - 1."""
    table = f"`{database}`.`{name}`"
    server.execute(ALTERATIONS[name].create.format(t=table))
    with closing(server.connect(database=database, autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} (id, v, name) VALUES (%s, %s, %s)", [(n, n % 50, f"n{n % 7}") for n in range(rows)]
        )
        connection.commit()


class Writer(Background):
    """Inserts, updates and deletes rows of some tables all the time, through columns that every alteration keeps."""

    def __init__(self, server: Server, database: str, names: Sequence[str], rows: int) -> None:
        super().__init__()
        self._server, self._database, self._names, self._rows = server, database, names, rows
        self.written = dict.fromkeys(names, 0)

    def work(self, _number: int) -> None:
        """Run one statement on each table in turn."""
        with closing(self._server.connect(database=self._database)) as connection, connection.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout = 5, sql_mode = ''")
            turn = 0
            while not self.stopping.wait(0.01):  # a hundred rounds a second: the machine has other things to do
                turn += 1
                for name in self._names:
                    self._one(cursor, name, turn)

    def _one(self, cursor: Any, name: str, turn: int) -> None:
        key = turn * 7 % self._rows
        statement: tuple[str, tuple[Any, ...]] = [
            (f"INSERT INTO `{name}` (id, v, name) VALUES (%s, %s, %s)", (1000 + turn, turn % 9, f"t{turn % 5}")),
            (f"UPDATE `{name}` SET v = v + 1 WHERE id = %s", (key,)),
            (f"UPDATE `{name}` SET name = %s WHERE id = %s", (f"u{turn % 5}", 1000 + turn - 3)),
            (f"DELETE FROM `{name}` WHERE id = %s", (key + 3 if turn % 3 == 0 else 1000 + turn - 9,)),
        ][turn % 4]
        try:
            cursor.execute(*statement)
            self.written[name] += cursor.rowcount > 0
        except pymysql.MySQLError as error:
            if error.args[0] not in _EXPECTED:
                raise


def alter(server: Server, database: str, name: str, pause: Callable[[], None]) -> None:
    """Execute the statements of one table, with a pause before each."""
    for statement in ALTERATIONS[name].statements:
        pause()
        server.execute(statement.format(t=f"`{database}`.`{name}`", d=database, n=name))
