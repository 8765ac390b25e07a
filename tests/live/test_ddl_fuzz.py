"""Random DDL in random sessions.

None that changes a captured table is missed, and none that changes its rows counts as harmless.

The judge is the server: the catalog and the rows of all tables before and after each statement.
"""

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import pymysql

from engine.capture.binlog.statements import LoggedStatement, affected_tables, meaningful
from engine.decode.schema import Table, same_columns
from engine.run.tables.ddl import keeps_rows
from engine.source.catalog import list_tables, made_since, read_tables
from engine.source.connect import Connection, Endpoint, describe, open_connection, query, quote
from engine.source.positions import Position, current
from engine.source.replication import read_runs
from tests.live.support.ddl_grammar import CHARSETS, MODES, NAMES, OTHERS, Grammar, Session
from tests.servers import Server
from tests.support.depth import depth

STATEMENTS, COM_QUERY = 500, 3
MORE = (
    "",
    ", g INT AS (id + IFNULL(v, DEFAULT(v))) STORED",
    ", g VARCHAR(40) AS (CONCAT(v, '|', id / 3)) STORED",
    ", g VARCHAR(20) AS (CONCAT(v, '')) VIRTUAL",
    "",
)
"""Generated columns, whose values a server may compute again."""
_CHARSETS = "SELECT CHARACTER_SET_NAME AS c FROM information_schema.CHARACTER_SETS"
Rows = dict[str, list[Any]]
Place = tuple[str, str]
CREATE = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, name VARCHAR(40) CHARACTER SET utf8mb4, `état` TEXT, `c d` INT, "
    "note VARCHAR(20), f DOUBLE{more}) CHARACTER SET utf8mb4"
)


@dataclass(frozen=True)
class Seen:
    """The tables of the captured database at one moment."""

    tables: dict[Place, Table]
    rows: dict[Place, Rows]


@dataclass(frozen=True)
class Step:
    """One statement, with the binlog's end before and after it."""

    statement: str
    session: Session
    start: Position
    end: Position
    before: Seen
    after: Seen
    made: frozenset[Place]
    """The tables that the catalog shows as made since."""


class World:
    """A server's captured database and another one, and a session of every character set."""

    def __init__(self, server: Server, database: str) -> None:
        self.server = server
        self.database = database
        self.elsewhere = f"{database}_x"
        self.connection: Connection = open_connection(Endpoint(server.host, server.port, "root", ""))
        self.described = describe(self.connection)
        known = {row["c"] for row in query(self.connection, _CHARSETS)}
        self.sessions = {c: server.connect(charset="latin1", use_unicode=False) for c in CHARSETS if c in known}
        for name in (self.database, self.elsewhere):
            server.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        for charset, session in self.sessions.items():
            session.query(f"SET NAMES {charset}")

    def close(self) -> None:
        """Drop the databases and close the sessions."""
        for connection in (self.connection, *self.sessions.values()):
            connection.close()
        for name in (self.database, self.elsewhere):
            self.server.execute(f"DROP DATABASE `{name}`")

    def fill(self) -> bool:
        """Create the tables that are not there. Returns whether there were any."""
        there = {name for database, name in list_tables(self.connection) if database == self.database}
        missing = [name for name in (*NAMES, OTHERS[0]) if name not in there]
        for name in missing:
            table = quote(self.database, name)
            with suppress(pymysql.Error):  # a view has its name
                self.server.execute(CREATE.format(t=table, more=MORE[len(name.encode()) % len(MORE)]))
                rows = f"(0, {len(name)}, 'a', 0.7), (1, NULL, 'b', 123456.789), (2, 2, 'c', NULL)"
                self.server.execute(f"INSERT INTO {table} (id, v, name, f) VALUES {rows}")
        return bool(missing)

    def position(self) -> Position:
        """The binlog's end."""
        return current(self.connection, self.described)

    def see(self) -> Seen:
        """The captured tables as they are now."""
        names = [place for place in list_tables(self.connection) if place[0] == self.database and place[1] in NAMES]
        tables = {(t.database, t.name): t for t in read_tables(self.connection, names)}
        return Seen(tables, {place: self._rows(table) for place, table in tables.items()})

    def _rows(self, table: Table) -> Rows:
        columns = ", ".join(quote(column.name) for column in table.columns)
        rows = query(self.connection, f"SELECT {columns} FROM {quote(table.database, table.name)}")
        rows.sort(key=lambda row: str(row.get("id")))
        return {column.name: [row[column.name] for row in rows] for column in table.columns}

    def run(self, session: Session, statement: str) -> None:
        """Run a statement as bytes of the session's character set. It may fail."""
        connection = self.sessions[session.charset]
        connection.query(f"SET SESSION sql_mode = '{session.mode}', SESSION div_precision_increment = {session.digits}")
        connection.select_db(session.database)
        with suppress(pymysql.Error):
            connection._execute_command(COM_QUERY, statement.encode(CHARSETS[session.charset]))
            connection._read_query_result()


def test_no_statement_that_changes_a_captured_table_is_missed(server: Server, database: str) -> None:
    """Names in every character set, quotes, comments and modes; prepared, in procedures, in another database."""
    for seed in range(depth(1, 20)):
        world = World(server, f"{database}_{seed}")
        with closing(world):
            steps = taken(world, random.Random(seed))
            logged = list(statements_since(world, steps[0].start))
        judged = [
            judge(step, [one for at, one in logged if step.start.order < at.order <= step.end.order]) for step in steps
        ]
        changed = sum(found.changed for found in judged)
        assert changed > STATEMENTS / 20, "most statements failed or did nothing"
        assert not [line for found in judged for line in found.missed]


def taken(world: World, rng: random.Random) -> list[Step]:
    """Run random statements."""
    steps: list[Step] = []
    world.fill()
    seen = world.see()
    while len(steps) < STATEMENTS:
        session = Session(
            rng.choice(list(world.sessions)),
            rng.choice(MODES),
            rng.choice([world.database, world.elsewhere]),
            rng.choice([2, 4, 8]),
        )
        for statement in Grammar(rng, session, world.database, world.elsewhere).wrapped():
            with suppress(UnicodeEncodeError):  # not in this character set
                start, began_s = world.position(), int(query(world.connection, "SELECT UNIX_TIMESTAMP() AS t")[0]["t"])
                world.run(session, statement)
                after = world.see()
                made = made_since(world.connection, list(after.tables), began_s)
                steps.append(Step(statement, session, start, world.position(), seen, after, made))
                seen = after
        if world.fill():
            seen = world.see()
    return steps


def statements_since(world: World, start: Position) -> Iterator[tuple[Position, LoggedStatement]]:
    """The meaningful statements in the binlog, with the position after each."""
    with closing(open_connection(Endpoint(world.server.host, world.server.port, "root", ""))) as connection:
        for run in read_runs(connection, start.file, start.offset, 5000):
            for logged in meaningful(run, mariadb=world.server.flavor == "mariadb"):
                yield Position(run.file, int(run.offset[logged.event])), logged


@dataclass(frozen=True)
class Judged:
    """What is wrong with a step, and whether it changed a captured table."""

    missed: list[str]
    changed: bool


def judge(step: Step, logged: list[LoggedStatement]) -> Judged:
    """Compare what is concluded from the statements in the binlog with what the server shows."""
    before, after = step.before, step.after
    names = {name for one in logged if not one.effect.creates for name in affected_tables(one, before.tables.values())}
    proved = all(one.effect.is_complete for one in logged)
    missed, changed = list[str](), False
    for place, table in before.tables.items():
        shown = after.tables.get(place)
        differs = shown is None or not same_columns(table, shown)
        rows_differ = shown is None or before.rows[place] != after.rows[place]
        changed = changed or differs or rows_differ
        found = table.full_name in names or (not proved and (differs or place in step.made))
        if (differs or rows_differ) and not found:
            missed.append(f"{table.full_name} changed by {step}: {logged}")
        alter = logged[0].effect.alter if len(logged) == 1 else None
        if shown is not None and table.full_name in names and keeps_rows(table, shown, alter, earlier_names=()):
            missed += [
                f"{table.full_name} lost {name} by {step}" for name in lost(before.rows[place], after.rows[place])
            ]
    return Judged(missed, changed)


def lost(before: Rows, after: Rows) -> list[str]:
    """The columns whose values differ, and the new ones that are not NULL everywhere."""
    new = [name for name, values in after.items() if name not in before and any(v is not None for v in values)]
    return [name for name, values in before.items() if name in after and values != after[name]] + new
