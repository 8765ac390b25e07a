"""`[sink.catalog]`: the Iceberg catalog in which tables are registered."""

import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from engine.spec.section import Section

_NAMESPACE = re.compile(r"(?:[A-Za-z0-9_\-]|\{database\})+")
_OF_REST = (
    "warehouse",
    "token_env",
    "token_file",
    "client_id",
    "client_secret_env",
    "client_secret_file",
    "oauth2_server_uri",
    "scope",
)
_OF_SQL = ("name", "password_env", "password_file")
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?=[^/])")
"""The beginning of a URL of a file by a relative path."""


class CatalogSettings(Section):
    """The Iceberg catalog in which the tables are registered ([Catalogs](iceberg.md#catalogs))."""

    type: Literal["rest", "sql"]
    """`rest`: a catalog with Iceberg's REST interface. `sql`: the tables of a database, as those of pyiceberg's
    `SqlCatalog` and of Iceberg's `JdbcCatalog`."""
    uri: str
    """Of `rest`: its URL, without `/v1`. Of `sql`: the database's URL, as SQLAlchemy has it, such as
    `postgresql+psycopg://tidemark@db/catalog` or `sqlite:////data/catalog.db`. Never with a password."""
    namespace: str = Field("{database}", min_length=1)
    """The namespace of a table; `{database}` stands for its database."""
    warehouse: str | None = None
    """The warehouse that a `rest` catalog is asked for, if it has several."""
    token_env: str | None = None
    """The environment variable that contains the bearer token of a `rest` catalog. It beats the file."""
    token_file: Path | None = None
    """The file that contains it. It is read again when the catalog refuses it."""
    client_id: str | None = None
    """With a secret, the client of a `rest` catalog's OAuth2: the runner fetches its tokens itself."""
    client_secret_env: str | None = None
    """The environment variable that contains the client's secret. It beats the file."""
    client_secret_file: Path | None = None
    """The file that contains it."""
    oauth2_server_uri: str | None = None
    """Where tokens are fetched. By default, where the catalog itself has them: `<uri>/v1/oauth/tokens`."""
    scope: str = "catalog"
    """The scope that is asked for."""
    name: str = Field("default", min_length=1, max_length=255)
    """The catalog's name in the tables of a `sql` catalog."""
    password_env: str | None = None
    """The environment variable that contains the password of a `sql` catalog's database. It beats the file."""
    password_file: Path | None = None
    """The file that contains it."""

    @field_validator("uri", "oauth2_server_uri")
    @classmethod
    def _uri(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            has_password = parts.password is not None
        except ValueError:
            raise ValueError("it is not a URL") from None
        if has_password or "password" in parts.query.casefold():
            raise ValueError("a URL with a password is not accepted: specs are shown and copied")
        if not parts.scheme or "://" not in value:
            raise ValueError("it is not a URL")
        return value.rstrip("/")

    @field_validator("namespace")
    @classmethod
    def _letters(cls, value: str) -> str:
        if not _NAMESPACE.fullmatch(value):
            raise ValueError("a namespace has ASCII letters, digits, `_`, `-` and `{database}`, and is one level")
        return value

    @model_validator(mode="after")
    def _of_its_type(self) -> Self:
        others = _OF_SQL if self.type == "rest" else _OF_REST
        if unused := [name for name in others if name in self.model_fields_set]:
            raise ValueError(f'{", ".join(unused)}: not for type = "{self.type}"')
        is_http = urlsplit(self.uri).scheme in ("http", "https")
        if is_http != (self.type == "rest"):
            wanted = "the URL of a rest catalog begins" if self.type == "rest" else "no database's URL begins"
            raise ValueError(f"{wanted} with http:// or https://")
        has_secret = self.client_secret_env is not None or self.client_secret_file is not None
        if has_secret != (self.client_id is not None):
            raise ValueError("client_id and its secret (client_secret_env or client_secret_file) go together")
        if has_secret and (self.token_env is not None or self.token_file is not None):
            raise ValueError("either a token or a client with its secret, not both")
        return self

    def below(self, root: Path) -> Self:
        """With paths that do not depend on the current folder. root: of relative paths."""
        names = ("token_file", "client_secret_file", "password_file")
        files = {name: root / at for name in names if (at := getattr(self, name)) is not None}
        match = _SQLITE.match(self.uri)
        uri = self.uri if match is None else f"{match[0]}{root / self.uri[match.end() :]}"
        return self.model_copy(update={**files, "uri": uri})

    def namespace_of(self, database: str) -> str:
        """The namespace of the tables of a database."""
        return self.namespace.replace("{database}", database)

    def secrets(self) -> tuple[tuple[str | None, Path | None], ...]:
        """Where its secrets are: environment variables and files."""
        return (
            (self.token_env, self.token_file),
            (self.client_secret_env, self.client_secret_file),
            (self.password_env, self.password_file),
        )

    @property
    def has_credentials(self) -> bool:
        """Whether requests have credentials."""
        return any(variable or file for variable, file in self.secrets())

    @property
    def place(self) -> str:
        """What it is, in a sentence."""
        return f"the {'REST' if self.type == 'rest' else 'SQL'} catalog {self.uri}"
