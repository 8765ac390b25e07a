"""The users of test servers: ``root`` without a password, and ``tidemark`` with exactly what Tidemark may ask for."""

from collections.abc import Iterable
from typing import Protocol

USER = "tidemark"
PASSWORD = "tide-Mark-1"
# MariaDB takes REPLICATION CLIENT for BINLOG MONITOR (10.5+), so one statement serves both servers.
GRANTS = ("SELECT ON *.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*")


class Executes(Protocol):
    """Anything that runs a statement as root."""

    def execute(self, sql: str) -> object:
        """Run one statement."""


def create_user(server: Executes, name: str, grants: Iterable[str], password: str = PASSWORD) -> None:
    """Create (or replace) a user who may connect from anywhere; `grants` are such as ``"SELECT ON shop.*"``."""
    for statement in user_statements(name, grants, password):
        server.execute(statement)


def user_statements(name: str, grants: Iterable[str], password: str = PASSWORD) -> list[str]:
    """The statements of `create_user`, for a server that takes them from a file."""
    return [
        f"DROP USER IF EXISTS '{name}'@'%'",
        f"CREATE USER '{name}'@'%' IDENTIFIED BY '{password}'",
        *(f"GRANT {grant} TO '{name}'@'%'" for grant in grants),
    ]


def initial_statements() -> list[str]:
    """The users of every fresh data directory."""
    return [
        "DROP USER IF EXISTS ''@'localhost'",
        "DROP USER IF EXISTS 'root'@'127.0.0.1'",
        "CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY ''",
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION",
        *user_statements(USER, GRANTS),
    ]
