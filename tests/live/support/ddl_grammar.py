"""Random DDL: statements of every kind, in every quoting, with comments.

Under the modes and character sets of sessions.

A statement may fail on the server; it is then not logged. What it does is judged by the catalog and the rows, never by
its text.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

CHARSETS = {
    "utf8mb4": "utf-8",
    "latin1": "cp1252",
    "gbk": "gbk",
    "euckr": "cp949",
    "sjis": "shift_jis",
    "big5": "big5",
    "cp1251": "cp1251",
    "gb18030": "gb18030",
}
"""Character sets of clients, with Python's names."""
MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
NAMES = (
    "t",
    "plain",
    "größe",
    "grÃ¶ÃŸe",
    "t_模",
    "学员",
    "표",
    'we"ird',
    "we`ird",
    "it's",
    "a.b",
    "select",
    "ソ",
    "привет",
    "x-y",
    "#c",
)
"""Names of captured tables; some are others as read by the wrong character set."""
OTHERS = ("other", "t2", "ordinary", "groesse", "t模")
COLUMNS = ("v", "name", "état", "c d", "note")
_TYPES = (
    "INT",
    "BIGINT",
    "VARCHAR(40)",
    "VARCHAR(80)",
    "TEXT",
    "LONGTEXT",
    "DATETIME(3)",
    "TIMESTAMP",
    "TIMESTAMP NULL",
)
_TEXTS = (
    "plain",
    "C:\\dir\\",
    "# of items",
    "it's",
    'say "x"',
    "-- no",
    "/* no */",
    "a`b",
    "DROP COLUMN v",
    "größe",
    ";",
)
_COMMENTS = ("", "", "", "/* c */", "/* 'c */", "-- c'\n", "#c\n", "/*!50000 */", "/*!99999 x */", "/**/")


@dataclass(frozen=True)
class Session:
    """Settings of a session that decide how its statements are read."""

    charset: str
    mode: str
    database: str
    digits: int
    """`div_precision_increment`, by which the server computes generated columns."""


class Grammar:
    """Makes statements for one session. tables, others: names of the captured database, and of another one."""

    def __init__(self, rng: random.Random, session: Session, database: str, elsewhere: str) -> None:
        self._rng = rng
        self._session = session
        self._database = database
        self._elsewhere = elsewhere

    def statement(self) -> str:
        """One statement."""
        kinds = (self._alter, self._alter, self._alter, self._table, self._index, self._swap)
        return self._pick(kinds)()

    def wrapped(self) -> list[str]:
        """One statement, perhaps in a prepared statement or a procedure."""
        inner, rng = self.statement(), self._rng
        if rng.random() < 0.85:
            return [inner]
        if rng.random() < 0.5:
            return [f"PREPARE s FROM {self._text(inner)}", "EXECUTE s"]
        return ["DROP PROCEDURE IF EXISTS p", f"CREATE PROCEDURE p() {inner}", "CALL p()"]

    def _pick(self, of: Sequence[T]) -> T:
        return self._rng.choice(of)

    def _blank(self) -> str:
        return f" {self._pick(_COMMENTS)} "

    def _words(self, *words: str) -> str:
        return self._blank().join(word for word in words if word)

    def _quoted(self, name: str) -> str:
        ansi = "ANSI" in self._session.mode
        plain = name.isidentifier() and name.upper() != "SELECT"
        if plain and self._rng.random() < 0.4:
            return name
        if ansi and self._rng.random() < 0.6:
            return '"' + name.replace('"', '""') + '"'
        return "`" + name.replace("`", "``") + "`"

    def _text(self, text: str) -> str:
        quote = "'" if "ANSI" in self._session.mode else self._pick("'\"")
        escapes = "NO_BACKSLASH" not in self._session.mode
        inside = text.replace("\\", "\\\\") if escapes else text
        if escapes and self._rng.random() < 0.5:
            return quote + inside.replace(quote, "\\" + quote) + quote
        return quote + inside.replace(quote, quote * 2) + quote

    def _table_name(self) -> str:
        here = self._rng.random() < 0.8
        name = self._quoted(self._pick(NAMES if here else (*OTHERS, *NAMES[:3])))
        owner = self._database if here or self._rng.random() < 0.5 else self._elsewhere
        if owner == self._session.database and self._rng.random() < 0.5:
            return name
        dot = self._pick((".", ".", " . "))
        return f"{self._quoted(owner)}{dot}{name}"

    def _column(self) -> str:
        return self._quoted(self._pick(COLUMNS))

    def _definition(self) -> str:
        extra = ("", "", "NULL", "NOT NULL", "DEFAULT NULL", "DEFAULT 7", f"COMMENT {self._text(self._pick(_TEXTS))}")
        return self._words(self._pick(_TYPES), self._pick(extra))

    def _place(self) -> str:
        return self._pick(("", "", "FIRST", f"AFTER {self._column()}", "AFTER id"))

    def _alter(self) -> str:
        comments = [f"COMMENT {self._text(self._pick(_TEXTS))}" for _ in range(self._pick((0, 0, 1, 2, 3)))]
        actions = [*comments, *(self._action() for _ in range(self._pick((1, 1, 1, 2, 3))))]
        if self._rng.random() < 0.2:
            column = self._column()
            actions += [f"DROP COLUMN {column}", f"ADD COLUMN {column} INT"]
        head = self._pick(("ALTER TABLE", "alter table", "ALTER /*!50000 TABLE */"))
        return self._words(head, self._table_name(), ", ".join(actions))

    def _action(self) -> str:
        column, text = self._column(), self._text(self._pick(_TEXTS))
        return self._pick(
            (
                f"ADD COLUMN {column} {self._definition()} {self._place()}",
                f"ADD {column} {self._definition()}",
                f"ADD ({column} INT, {self._quoted('more')} INT)",
                f"DROP COLUMN {column}",
                f"DROP {column}",
                f"MODIFY {column} {self._definition()} {self._place()}",
                f"CHANGE {column} {column} {self._definition()}",
                f"CHANGE {column} {self._column()} VARCHAR(80)",
                f"RENAME COLUMN {column} TO {self._quoted('renamed')}",
                f"ALTER {column} SET DEFAULT {text}",
                f"ALTER COLUMN {column} DROP DEFAULT",
                f"COMMENT {text}",
                f"COMMENT = {text}",
                "AUTO_INCREMENT = 50",
                "ROW_FORMAT = DYNAMIC",
                "ENGINE = InnoDB",
                "FORCE",
                f"ADD INDEX {self._quoted('i1')} ({column}(3))",
                f"ADD INDEX i2 ({column})",
                f"ADD UNIQUE u1 ({self._quoted('id')}, v)",
                "DROP INDEX i1",
                "DROP INDEX u1",
                "RENAME INDEX i2 TO i3",
                f"ADD CONSTRAINT c1 CHECK ({self._quoted('id')} > 0)",
                "DROP CONSTRAINT c1",
                "DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
                "CONVERT TO CHARACTER SET latin1",
                "DEFAULT CHARACTER SET utf8mb4",
                "PARTITION BY HASH (id) PARTITIONS 3",
                "REMOVE PARTITIONING",
                "TRUNCATE PARTITION p0",
                "COALESCE PARTITION 1",
                "PARTITION BY LIST (id) (PARTITION p0 VALUES IN (0, 1), PARTITION p1 VALUES IN (2, 3))",
                "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES IN (3))",
                "MODIFY id INT NOT NULL AUTO_INCREMENT",
                "MODIFY v INT UNSIGNED ZEROFILL",
                "MODIFY v INT DEFAULT 9",
                "MODIFY f DOUBLE(22,0)",
                "ALTER v SET DEFAULT 9",
                "CHARSET latin1",
                "ORDER BY id",
                f"RENAME TO {self._table_name()}",
                "ALGORITHM = COPY",
                "LOCK = SHARED",
            )
        )

    def _table(self) -> str:
        name = self._table_name()
        return self._pick(
            (
                self._words("TRUNCATE", "TABLE", name),
                self._words("TRUNCATE", name),
                self._words("DROP TABLE", name),
                self._words("DROP TABLE IF EXISTS", f"{name}, {self._table_name()}"),
                self._words("CREATE TABLE", name, "LIKE", self._table_name()),
                self._words("CREATE TABLE IF NOT EXISTS", name, "(id INT PRIMARY KEY, v INT)"),
                self._words("CREATE OR REPLACE TABLE", name, "(id INT PRIMARY KEY, v INT)"),
                self._words("OPTIMIZE TABLE", name),
                self._words("ANALYZE TABLE", name),
                self._words("SET STATEMENT max_statement_time = 9 FOR TRUNCATE TABLE", name),
                self._words("CREATE VIEW", self._quoted("seen"), "AS SELECT * FROM", name),
                self._words("DROP VIEW IF EXISTS", self._quoted("seen")),
            )
        )

    def _index(self) -> str:
        name, column = self._table_name(), self._column()
        return self._pick(
            (
                f"CREATE INDEX i4 ON {name} ({column}(2))",
                f"CREATE UNIQUE INDEX u2 ON {name} (id, v)",
                f"DROP INDEX i4 ON {name}",
                f"DROP INDEX u2 ON {name}",
            )
        )

    def _swap(self) -> str:
        a, b = self._table_name(), self._table_name()
        spare = f"{self._quoted(self._elsewhere)}.{self._quoted('spare')}"
        return self._words("RENAME TABLE", f"{a} TO {spare}, {b} TO {a}, {spare} TO {b}")
