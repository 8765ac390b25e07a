"""Tables to plan, and a fake server: SQLite, which orders integers like the real ones and accepts their SQL."""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from engine.decode.schema import Column, Index, Table
from engine.plan.keys import Bound, ChunkKey

Key = tuple[int | None, ...]
_HINT = re.compile(r" FORCE INDEX \(`[^`]*`\)")


def table(*columns: Column, key: Sequence[str] = (), indexes: Iterable[Index] | None = None, **more: Any) -> Table:
    """A table in the database `shop`; without `indexes` it has its primary key's, if any."""
    own = (Index("PRIMARY", tuple(key)),) if key else ()
    return Table("shop", "orders", columns, tuple(key), indexes=own if indexes is None else tuple(indexes), **more)


def column(name: str, type_: str, **more: Any) -> Column:
    """A column that is not nullable."""
    return Column(name, type_, **{"nullable": False, **more})


def key_of(*columns: Column, index: str = "PRIMARY") -> ChunkKey:
    """A chunk key."""
    return ChunkKey(columns, index)


def text(name: str = "s", **more: Any) -> Column:
    """A collated text column."""
    return column(name, "varchar", length=40, **{"charset": "utf8mb4", "collation": "utf8mb4_general_ci", **more})


def below(key: Key, bound: Bound) -> bool:
    """Whether a key lies below a bound, by definition.

    NULL is below all; a bound lies in front of all keys that begin with it.
    """
    if key[0] is None:
        return True
    return key[: len(bound)] < tuple(int(part) for part in bound)


class Server:
    """`main.t` with integer key columns k0, k1, …; with `walking` it is the connection of the walk."""

    def __init__(self, columns: int, *, nullable: bool) -> None:
        self.key = ChunkKey(tuple(Column(f"k{n}", "bigint", nullable=nullable and not n) for n in range(columns)), "i")
        self.table = Table("main", "t", self.key.columns, ())
        self.keys: list[Key] = []
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.execute(f"CREATE TABLE t ({', '.join(self.key.names)})")

    def insert(self, keys: Iterable[Key]) -> None:
        """Insert more rows."""
        for key in keys:
            self.keys.append(key)
            self._db.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(key))})", key)

    def ask(self, statement: str) -> list[dict[str, Any]]:
        """Execute a statement."""
        cursor = self._db.execute(_HINT.sub("", statement))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def rows(self, condition: str) -> list[int]:
        """The numbers, from 0, of the rows that a condition selects."""
        where = f" WHERE {condition}" if condition else ""
        return [row["n"] - 1 for row in self.ask(f"SELECT rowid AS n FROM t{where}")]

    def close(self) -> None:
        """Close the database."""
        self._db.close()


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the walk use whatever `Server` it gets as its connection."""
    monkeypatch.setattr("engine.plan.walk.query", Server.ask)
