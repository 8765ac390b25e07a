"""Reads tables of destinations in databases, by clients of their own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql

Address = Mapping[str, Any]
"""`[sink.database]`: host, port, user, database."""


class Killed(BaseException):
    """Ends a runner where it is."""


def quoted(kind: str, *names: str) -> str:
    """A name in a statement, after those of its schema. kind: of the destination."""
    mark = "`" if kind == "mysql" else '"'
    return ".".join(f"{mark}{name}{mark}" for name in names)


def rows_of(address: Address, schema: str, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    mark = "`" if address.get("port") and not _is_postgres(address) else '"'
    listed, place = (f"{mark},{mark}".join(columns), f"{mark}{schema}{mark}.{mark}{table}{mark}")
    return queried(address, f"SELECT {mark}{listed}{mark} FROM {place}")


def queried(address: Address, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last one of some statements. Each is committed."""
    with closing(_connected(address)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def locked(address: Address, statement: str) -> Iterator[None]:
    """While rows are locked, by a statement of somebody else."""
    with closing(_connected(address)) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        cursor.fetchall()
        yield


def waits(address: Address, word: str) -> bool:
    """Whether a statement with this word waits for a lock."""
    if _is_postgres(address):
        rows = queried(address, "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    else:
        rows = queried(address, "SELECT INFO FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%'")
    return any(word in str(text) for (text,) in rows)


def _is_postgres(address: Address) -> bool:
    return "state_schema" in address


def _connected(address: Address) -> Any:
    if "file" in address:
        return duckdb.connect(address["file"])
    host, port, user, name = (address[key] for key in ("host", "port", "user", "database"))
    password = Path(address["password_file"]).read_text() if "password_file" in address else ""
    if _is_postgres(address):
        return psycopg.connect(host=host, port=port, user=user, password=password, dbname=name, autocommit=True)
    return pymysql.connect(
        host=host, port=port, user=user, password=password, database=name, charset="utf8mb4", autocommit=True
    )
