"""`[sink.database]`: the server, login and tables of a destination in a database."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from engine.base.errors import SpecError
from engine.spec.secrets import secret
from engine.spec.section import Section

DatabaseType = Literal["postgresql", "mysql", "duckdb"]
DATABASE_TYPES: tuple[DatabaseType, ...] = ("postgresql", "mysql", "duckdb")
"""The values of `sink.type` whose tables are in a database."""
_RULE = re.compile(r"(?:[A-Za-z0-9_$\-]|\{database\}|\{table\})+(?:\.(?:[A-Za-z0-9_$\-]|\{database\}|\{table\})+)?")
_PORTS: dict[DatabaseType, int] = {"postgresql": 5432, "mysql": 3306, "duckdb": 0}


class DatabaseSettings(Section):
    """The server and tables of a database, or the file of `type = "duckdb"` ([Databases](databases.md))."""

    file: Path | None = None
    """The file of DuckDB, and nothing of a server. A relative path is relative to the spec's folder."""
    host: str = ""
    """The name or address of the server."""
    port: int | None = Field(None, ge=1, le=65_535)
    """By default 5432 for PostgreSQL, 3306 for MySQL and MariaDB."""
    database: str = ""
    """The database to connect to. On MySQL and MariaDB, Tidemark's own tables are there."""
    user: str = ""
    """The user of the login ([what it may do](databases.md#the-account))."""
    password_env: str | None = None
    """The environment variable that contains its password. It beats the file."""
    password_file: Path | None = None
    """The file that contains it."""
    table: str = "{database}.{table}"
    """The name of a table, behind its schema or, on MySQL and MariaDB, its database. `{database}` and `{table}` stand
    for the names on the source. Without a dot, the tables are where Tidemark's own are."""
    state_schema: str = "public"
    """The schema of Tidemark's own tables. Only for PostgreSQL."""
    create_schemas: bool = True
    """Whether schemas, or databases on MySQL and MariaDB, are created. If not, a table whose schema is not there
    stops."""
    lock_wait_s: int = Field(30, ge=1, le=3600)
    """How long a statement waits for a lock that another session holds; then the pipeline waits, and tries again."""
    tls: Literal["off", "preferred", "required", "verify"] = "preferred"
    """Whether connections use TLS. `preferred`: if the server offers it. Only `verify` protects against an active
    attacker."""
    ca: Path | None = None
    """The file with the certificate authority for `verify`. By default, the system's authorities."""

    _sent_password: str | None = PrivateAttr(None)

    @field_validator("table")
    @classmethod
    def _rule(cls, value: str) -> str:
        if not _RULE.fullmatch(value) or "{table}" not in value.rpartition(".")[2]:
            raise ValueError(
                f"{value!r} is no rule for tables: such as {{database}}.{{table}}, with at most one dot, and {{table}} "
                "after it"
            )
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.ca is not None and self.tls != "verify":
            raise ValueError('ca: only with tls = "verify"')
        return self

    def require_complete(self, kind: DatabaseType) -> None:
        """Raises ValueError for what a kind lacks, or does not have. kind: `sink.type`."""
        of_server = ("host", "database", "user")
        missing = ["file"] if kind == "duckdb" and not self.file else []
        missing += [name for name in of_server if kind != "duckdb" and not getattr(self, name)]
        if missing:
            raise ValueError(f'database.{missing[0]}: missing; type = "{kind}" needs it')
        of_files = {"file", "table", "create_schemas"}
        unused = set(DatabaseSettings.model_fields) - of_files if kind == "duckdb" else {"file"}
        if kind == "mysql":
            unused.add("state_schema")
        if wrong := sorted(unused & self.model_fields_set):
            raise ValueError(f'database.{wrong[0]}: not for type = "{kind}"')

    def port_of(self, kind: DatabaseType) -> int:
        """The port of the server. kind: `sink.type`."""
        return self.port or _PORTS[kind]

    def place(self, kind: DatabaseType) -> str:
        """The URL that identifies the destination. kind: `sink.type`."""
        if self.file is not None:
            return f"{kind}://{self.file}/{self.table}"
        return f"{kind}://{self.host}:{self.port_of(kind)}/{self.database}/{self.table}"

    def secrets(self) -> list[tuple[str | None, Path | None]]:
        """The references to its secrets, for `spec.secrets.secret`."""
        return [(self.password_env, self.password_file)]

    def password(self) -> str:
        """The referenced password; empty if there is no reference. Raises SpecError if the reference is broken.

        On another host, that with which the settings were sent counts where the reference is broken.
        """
        try:
            return secret("sink.database.password", self.password_env, self.password_file) or ""
        except SpecError:
            if self._sent_password is None:
                raise
            return self._sent_password

    def __getstate__(self) -> dict[Any, Any]:
        """Readers get the current password."""
        state = super().__getstate__()
        with suppress(SpecError):
            state["__pydantic_private__"] = {"_sent_password": self.password()}
        return state

    def below(self, root: Path) -> Self:
        """With files that do not depend on the current folder. root: of relative paths."""
        names = ("file", "password_file", "ca")
        files = {name: root / path for name in names if (path := getattr(self, name)) is not None}
        return self.model_copy(update=files)
