"""Registers tables in the database of a SQL catalog: a row names the newest metadata file of each table.

The tables are those of pyiceberg's `SqlCatalog` and of Iceberg's `JdbcCatalog`. They are created if they are missing.

Source: Apache Iceberg, `JdbcUtil` (V1 of its tables).
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Column, MetaData, String, Table, create_engine, delete, event, insert, inspect, select, update
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from engine.base.errors import SpecError, TidemarkError
from engine.base.redaction import redact
from engine.destination.iceberg.catalogs.catalog_protocol import (
    ATTEMPTS,
    CatalogError,
    CatalogName,
    CatalogTable,
    PublishedMetadata,
    keeps_changing,
    not_ours,
)
from engine.destination.iceberg.metadata import TableMetadata
from engine.destination.iceberg.table import metadata_number
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.secrets import secret
from engine.store.folder import Folder

_EXACT = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
"""Names that differ in case alone are those of two tables."""
_NAME = String(255).with_variant(_EXACT, "mysql", "mariadb")
_META = MetaData()
_TABLES = Table(
    "iceberg_tables",
    _META,
    Column("catalog_name", _NAME, primary_key=True),
    Column("table_namespace", _NAME, primary_key=True),
    Column("table_name", _NAME, primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)
_NAMESPACES = Table(
    "iceberg_namespace_properties",
    _META,
    Column("catalog_name", _NAME, primary_key=True),
    Column("namespace", _NAME, primary_key=True),
    Column("property_key", _NAME, primary_key=True),
    Column("property_value", String(1000)),
)
_LONGEST = 1000
_EXISTS = "exists"
"""The property by which both programs note a namespace without tables."""
_TIMEOUT_S = 20
_CONNECT: dict[str, dict[str, Any]] = {
    "pymysql": {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S, "write_timeout": _TIMEOUT_S},
    "psycopg": {"connect_timeout": _TIMEOUT_S, "options": f"-c statement_timeout={_TIMEOUT_S}s"},
    "psycopg2": {"connect_timeout": _TIMEOUT_S, "options": f"-c statement_timeout={_TIMEOUT_S}s"},
    "pysqlite": {"timeout": _TIMEOUT_S},
}
"""By driver, how long a connection and a statement may take at most."""
_LOCK_WAITS = f"SET SESSION lock_wait_timeout = {_TIMEOUT_S}, SESSION innodb_lock_wait_timeout = {_TIMEOUT_S}"


class SqlCatalog:
    """The catalog that the settings name."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._has_tables = False

    def table(self, name: CatalogName, ledger: str, folder: Folder) -> CatalogTable:
        """See `IcebergCatalog`."""
        return _SqlTable(self, name, folder)

    @property
    def name(self) -> str:
        """The catalog's name in its tables."""
        return self._settings.name

    @property
    def place(self) -> str:
        """What it is, in a sentence."""
        return self._settings.place

    @contextmanager
    def connection(self, *, writes: bool) -> Iterator[Connection | None]:
        """A transaction. writes: whether missing tables are created; without, None if they are missing.

        Raises CatalogError, or SpecError for a URL or a database that cannot be used.
        """
        try:
            with self._lock:
                engine = self._engine = self._engine or self._new_engine()
                if not self._has_tables:
                    self._has_tables = self._find_tables(engine, creates=writes)
            if not self._has_tables:
                yield None
                return
            with engine.begin() as connection:
                yield connection
        except TidemarkError:
            raise
        except (SQLAlchemyError, RuntimeError, OSError) as error:
            with self._lock:  # the database may be another one when it is asked again: its file was deleted
                self._has_tables = False
                if self._engine is not None:
                    self._engine.dispose()
            raise self._error(error) from error

    def _new_engine(self) -> Engine:
        settings = self._settings
        password = secret("sink.catalog.password", settings.password_env, settings.password_file)
        try:
            url = make_url(settings.uri)
            url = url if password is None else url.set(password=password.strip())
            options = _CONNECT.get(url.get_driver_name(), {})
            engine = create_engine(url, pool_pre_ping=True, pool_recycle=600, connect_args=options)
        except Exception as error:
            raise SpecError(
                f"sink.catalog.uri cannot be used: {redact(str(error))}",
                detail="The Iceberg tables in their folders are published.",
                hint="Give the URL as SQLAlchemy has it, and install the driver that it names, such as psycopg.",
            ) from error
        weakref.finalize(self, engine.dispose)
        if engine.dialect.name in ("mysql", "mariadb"):
            event.listen(engine, "connect", _limit_waits)
        return engine

    def _find_tables(self, engine: Engine, *, creates: bool) -> bool:
        """Whether the database has the tables; creates them if they are missing and that is wanted."""
        if creates:
            for _ in range(ATTEMPTS):
                try:
                    _META.create_all(engine)
                    break
                except SQLAlchemyError:
                    if not inspect(engine).has_table(_TABLES.name):
                        raise
        elif not inspect(engine).has_table(_TABLES.name):
            return False
        if "iceberg_type" not in {one["name"] for one in inspect(engine).get_columns(_TABLES.name)}:
            raise SpecError(
                f"The table {_TABLES.name} of {self.place} has no column iceberg_type.",
                detail="Its catalog is of an old version. The Iceberg tables in their folders are published.",
                hint=f"Run there: ALTER TABLE {_TABLES.name} ADD COLUMN iceberg_type VARCHAR(5);",
            )
        return True

    def _error(self, error: Exception) -> CatalogError:
        cause = getattr(error, "orig", None) or error
        return CatalogError(
            f"{self.place[0].upper()}{self.place[1:]} cannot be used: {redact(str(cause))[:300]}",
            detail="It is tried again every half minute. Readers of the catalog see the last commit that it has; those "
            "that read by path, and readers of the Delta table, see all.",
            hint="Check that the database runs, and that its user may create tables there, and read and change "
            f"{_TABLES.name} and {_NAMESPACES.name}.",
        )


def _limit_waits(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_WAITS)


class _SqlTable:
    def __init__(self, catalog: SqlCatalog, name: CatalogName, folder: Folder) -> None:
        self.name = name
        self._catalog = catalog
        self._metadata_folder = folder / "metadata"
        self._folder = f"{self._metadata_folder.url}/"
        self.named_file = ""
        self._row = (
            (_TABLES.c.catalog_name == catalog.name)
            & (_TABLES.c.table_namespace == name.namespace)
            & (_TABLES.c.table_name == name.table)
        )

    def newest_version(self) -> int | None:
        with self._catalog.connection(writes=False) as connection:
            location = None if connection is None else self._location(connection)
        stored = None if location is None else self._read(location)
        return None if stored is None or stored.newest is None else stored.newest.version

    def follow(self, published: PublishedMetadata) -> str:
        foreign, uri = "", published.uri
        if len(uri) > _LONGEST:
            raise SpecError(
                f"The path of {self.name} has more than {_LONGEST} characters, which no SQL catalog takes: {uri}",
                hint="Use a shorter sink.path, or a REST catalog.",
            )
        for _ in range(ATTEMPTS):
            with self._catalog.connection(writes=True) as connection:
                assert connection is not None, "the tables are created"
                before = self._location(connection)
                if before == uri or (before is not None and self._is_later(before, published)):
                    return foreign
                if before is not None and not self._number(before):
                    foreign = "a commit by an unknown program through the catalog"
                if self._replace(connection, before, uri):
                    self.named_file = uri.removeprefix(self._folder)
                    return foreign
        raise keeps_changing(self.name, self._catalog.place)

    def drop(self) -> None:
        with suppress(SpecError), self._catalog.connection(writes=False) as connection:  # it may be somebody else's
            if connection is not None and (location := self._location(connection)) is not None:
                connection.execute(delete(_TABLES).where(self._row & (_TABLES.c.metadata_location == location)))

    def check(self) -> None:
        with self._catalog.connection(writes=False) as connection:
            if connection is not None:
                self._location(connection)
                # Without the privilege to change the table, this is refused.
                nothing = update(_TABLES).where(self._row & (_TABLES.c.metadata_location == ""))
                connection.execute(nothing.values(previous_metadata_location=None))

    def forget(self) -> None:
        pass

    def _location(self, connection: Connection) -> str | None:
        """The metadata file that the catalog has. Raises SpecError if it is another table's."""
        location = connection.execute(select(_TABLES.c.metadata_location).where(self._row)).scalars().first()
        if location is not None and not str(location).startswith(self._folder):
            raise not_ours(self.name, self._catalog.place)
        self.named_file = "" if location is None else location.removeprefix(self._folder)
        return location

    def _is_later(self, before: str, published: PublishedMetadata) -> bool:
        """Whether it is a later commit of another runner, which is there: a deleted folder begins again at 1."""
        return self._number(before) > published.number and published.has(self._number(before))

    def _number(self, location: str) -> int:
        return metadata_number(location.removeprefix(self._folder))

    def _read(self, location: str) -> TableMetadata | None:
        """The metadata in one of our files; None if it is not there any more, or another program's."""
        if not self._number(location):
            return None
        try:
            return TableMetadata.from_json(self._metadata_folder.read(location.removeprefix(self._folder)))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def _replace(self, connection: Connection, before: str | None, uri: str) -> bool:
        """Returns False if the row is not what it was."""
        if before is None:
            key = {
                "catalog_name": self._catalog.name,
                "table_namespace": self.name.namespace,
                "table_name": self.name.table,
            }
            try:
                with connection.begin_nested():
                    connection.execute(insert(_TABLES).values(**key, metadata_location=uri, iceberg_type="TABLE"))
            except IntegrityError:
                return False
            self._note_namespace(connection)
            return True
        changed = update(_TABLES).where(self._row & (_TABLES.c.metadata_location == before))
        values = {"metadata_location": uri, "previous_metadata_location": before}
        return connection.execute(changed.values(values)).rowcount == 1

    def _note_namespace(self, connection: Connection) -> None:
        key = {"catalog_name": self._catalog.name, "namespace": self.name.namespace, "property_key": _EXISTS}
        try:
            with connection.begin_nested():
                connection.execute(insert(_NAMESPACES).values(**key, property_value="true"))
        except IntegrityError:
            return  # it is noted
