"""Registers tables in the database of a SQL catalog: a row names the newest metadata file of each table.

The tables are those of pyiceberg's `SqlCatalog` and of Iceberg's `JdbcCatalog`. They are created if they are missing.

Source: Apache Iceberg, `JdbcUtil` (V1 of its tables).
"""

import weakref

from sqlalchemy import Column, MetaData, String, Table, create_engine, delete, insert, inspect, select, update
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from engine.base.errors import SpecError
from engine.base.redaction import redact
from engine.destination.iceberg.catalogs.catalog_protocol import (
    ATTEMPTS,
    CatalogError,
    CatalogName,
    CatalogTable,
    not_ours,
)
from engine.destination.iceberg.metadata import TableMetadata
from engine.destination.iceberg.table import metadata_number
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.secrets import secret
from engine.store.folder import Folder

_META = MetaData()
_TABLES = Table(
    "iceberg_tables",
    _META,
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)
_NAMESPACES = Table(
    "iceberg_namespace_properties",
    _META,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000)),
)
_LONGEST = 1000
_EXISTS = "exists"
"""The property by which both programs note a namespace without tables."""


class SqlCatalog:
    """The catalog that the settings name."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._engine: Engine | None = None

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

    def engine(self) -> Engine:
        """The database, with its tables. Raises SQLAlchemyError, or SpecError for a URL that cannot be used."""
        if self._engine is None:
            settings = self._settings
            password = secret("sink.catalog.password", settings.password_env, settings.password_file)
            try:
                url = make_url(settings.uri)
                url = url if password is None else url.set(password=password.strip())
                engine = create_engine(url, pool_pre_ping=True, pool_recycle=600)
            except (ArgumentError, NoSuchModuleError, ImportError) as error:
                raise SpecError(
                    f"sink.catalog.uri cannot be used: {redact(str(error))}",
                    detail="The Iceberg tables in their folders are published.",
                    hint="Give the URL as SQLAlchemy has it, and install the driver that it names, such as psycopg.",
                ) from error
            weakref.finalize(self, engine.dispose)
            _META.create_all(engine)
            if "iceberg_type" not in {one["name"] for one in inspect(engine).get_columns(_TABLES.name)}:
                raise SpecError(
                    f"The table {_TABLES.name} of {settings.place} has no column iceberg_type.",
                    detail="Its catalog is of an old version. The Iceberg tables in their folders are published.",
                    hint=f"Run there: ALTER TABLE {_TABLES.name} ADD COLUMN iceberg_type VARCHAR(5);",
                )
            self._engine = engine
        return self._engine


class _SqlTable:
    def __init__(self, catalog: SqlCatalog, name: CatalogName, folder: Folder) -> None:
        self._catalog = catalog
        self.name = name
        self._metadata_folder = folder / "metadata"
        self._folder = f"{self._metadata_folder.url}/"
        self._row = (
            (_TABLES.c.catalog_name == catalog.name)
            & (_TABLES.c.table_namespace == name.namespace)
            & (_TABLES.c.table_name == name.table)
        )

    def newest_version(self) -> int | None:
        try:
            with self._catalog.engine().connect() as connection:
                location = self._location(connection)
        except SQLAlchemyError as error:
            raise self._error(error) from error
        if location is None or not self._number(location):
            return None
        try:
            newest = TableMetadata.from_json(self._metadata_folder.read(location.removeprefix(self._folder))).newest
        except (FileNotFoundError, ValueError):
            return None  # it is far behind: the file is deleted already
        return None if newest is None else newest.version

    def follow(self, metadata: TableMetadata, uri: str) -> str:
        foreign = ""
        if len(uri) > _LONGEST:
            raise SpecError(
                f"The path of {self.name} has more than {_LONGEST} characters, which no SQL catalog takes: {uri}",
                hint="Use a shorter sink.path, or a REST catalog.",
            )
        try:
            for _ in range(ATTEMPTS):
                with self._catalog.engine().begin() as connection:
                    before = self._location(connection)
                    if before is not None and (before == uri or self._is_later(before, uri)):
                        return foreign
                    foreign = foreign or self._foreign(before)
                    if self._replace(connection, before, uri):
                        return foreign
        except SQLAlchemyError as error:
            raise self._error(error) from error
        raise CatalogError(
            f"Another program keeps changing the table {self.name} in {self._catalog.place}.",
            detail="Its readers there may see what that program wrote. The Iceberg table in its folder is right.",
            hint="Find that program, and stop it.",
        )

    def drop(self) -> None:
        try:
            with self._catalog.engine().begin() as connection:
                is_ours = _TABLES.c.metadata_location.startswith(self._folder, autoescape=True)
                connection.execute(delete(_TABLES).where(self._row & is_ours))
        except SQLAlchemyError as error:
            raise self._error(error) from error

    def check(self) -> None:
        try:
            with self._catalog.engine().connect() as connection:
                self._location(connection)
        except SQLAlchemyError as error:
            raise self._error(error) from error

    def forget(self) -> None:
        pass

    def _location(self, connection: Connection) -> str | None:
        """The metadata file that the catalog has. Raises SpecError if it is another table's."""
        location = connection.execute(select(_TABLES.c.metadata_location).where(self._row)).scalar_one_or_none()
        if location is not None and not str(location).startswith(self._folder):
            raise not_ours(self.name, self._catalog.place)
        return location

    def _is_later(self, before: str, uri: str) -> bool:
        """Whether another runner has told of a later commit."""
        return self._number(before) > self._number(uri)

    def _number(self, location: str) -> int:
        return metadata_number(location.removeprefix(self._folder))

    def _foreign(self, before: str | None) -> str:
        is_ours = before is None or self._number(before)
        return "" if is_ours else "a commit by an unknown program through the catalog"

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
        return (
            connection.execute(changed.values(metadata_location=uri, previous_metadata_location=before)).rowcount == 1
        )

    def _note_namespace(self, connection: Connection) -> None:
        key = {"catalog_name": self._catalog.name, "namespace": self.name.namespace, "property_key": _EXISTS}
        try:
            with connection.begin_nested():
                connection.execute(insert(_NAMESPACES).values(**key, property_value="true"))
        except IntegrityError:
            return  # it is noted

    def _error(self, error: SQLAlchemyError) -> CatalogError:
        cause = getattr(error, "orig", None) or error
        return CatalogError(
            f"{self._catalog.place[0].upper()}{self._catalog.place[1:]} cannot be told of the table {self.name}: "
            f"{redact(str(cause))[:300]}",
            detail="It is tried again every half minute. Readers of the catalog see the last commit that it has; those "
            "that read by path, and readers of the Delta table, see all.",
            hint="Check that the database runs, and that its user may create tables there, and read and change "
            f"{_TABLES.name} and {_NAMESPACES.name}.",
        )
