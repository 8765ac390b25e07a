"""Statements with which other engines read the published tables, as Delta tables and as Iceberg tables.

Some were tried (`EngineStatement.is_tried`); the others are from the engines' documentation.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from engine.base.errors import SpecError, unknown_tables
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.capabilities import Maintainable, PublishedFormat
from engine.destination.registry import destination_of
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.folder_names import CHANGES
from engine.spec.settings import Spec

_TRINO = "In a catalog {catalog} of that connector; register-table-procedure-enabled must be true."
_PINNED = "It stays at this metadata file: repeat it for newer snapshots."
_SNOWFLAKE = (
    "Needs the external volume lake over the lake's path, and a catalog integration {name} (CATALOG_SOURCE = "
    "OBJECT_STORE, TABLE_FORMAT = {format})."
)
_SPARK = (
    "Needs Iceberg's runtime, and a catalog: spark.sql.catalog.lake = org.apache.iceberg.spark.SparkCatalog, "
    "spark.sql.catalog.lake.type = hadoop, spark.sql.catalog.lake.warehouse = {lake}."
)
_CONNECTION = "REGION.CONNECTION"
ENGINES = ("spark", "duckdb", "trino", "clickhouse", "athena", "snowflake", "bigquery")


@dataclass(frozen=True)
class EngineStatement:
    """How an engine reads a table in one of its formats."""

    table: str
    """The captured table's full name, with `__changes` for its change log."""
    engine: str
    """One of `ENGINES`."""
    format: str
    """delta or iceberg."""
    text: str
    is_tried: bool
    """Whether we have read so."""
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)


def engine_statements(
    spec: Spec, directory: Directory, tables: Collection[str] = (), engines: Collection[str] = ()
) -> list[EngineStatement]:
    """The statements for some tables and engines, or for all. Writes nothing.

    Raises SpecError for a destination without mirrors, and for tables and engines that are not there.
    """
    spec.sink.require_mirrors("A table in another engine")
    if unknown := sorted(set(engines) - set(ENGINES)):
        raise SpecError(
            f"There are no statements for {', '.join(unknown)}.",
            detail="Nothing was done.",
            hint=f"Give some of {', '.join(ENGINES)}.",
        )
    state = Ledger(directory.ledger).state
    table_states = state.tables if state else {}
    if missing := [name for name in tables if name not in table_states]:
        raise unknown_tables(missing, table_states)
    statements, destination = list[EngineStatement](), destination_of(spec.sink, directory.maintenance)
    for name in tables or sorted(table_states):
        if state is None or not table_states[name].begun:
            continue
        table = published_as(table_from_dict(table_states[name].table), table_states[name].projection)
        stored = destination.table(state.owner, table)
        assert isinstance(stored, Maintainable), "those that have mirrors are"
        maintenance = stored.maintenance()
        formats = {one.table_place: one for one in maintenance.formats()}
        for place in maintenance.newest_versions():
            full_name = f"{name}{CHANGES if place.endswith(CHANGES) else ''}"
            of_table = (
                *_delta(full_name, _plain(place)),
                *_iceberg(full_name, formats.get(place)),
                *_in_catalog(full_name, formats.get(place), spec.sink.catalog),
            )
            statements += [one for one in of_table if one.engine in (engines or ENGINES)]
    return statements


def _delta(name: str, place: str) -> Iterator[EngineStatement]:
    schema, table = _identifiers(name)

    def statement(engine: str, text: str, *, is_tried: bool = False, note: str = "") -> EngineStatement:
        return EngineStatement(name, engine, "delta", text, is_tried, note)

    spark = f"CREATE TABLE {schema}.{table} USING delta LOCATION {_text(place)};"
    yield statement("spark", spark, note="Needs Delta Lake's package.")
    yield statement("duckdb", f"SELECT * FROM delta_scan({_text(place)});", is_tried=True)
    arguments = f"schema_name => {_text(schema)}, table_name => {_text(table)}, table_location => {_text(place)}"
    yield statement("trino", f"CALL delta.system.register_table({arguments});", note=_TRINO.format(catalog="delta"))
    function = "deltaLake" if _is_bucket(place) else "deltaLakeLocal"
    yield statement("clickhouse", f"SELECT * FROM {function}({_text(place)});")
    if _is_bucket(place):
        create = (
            f"CREATE EXTERNAL TABLE {schema}.{table} LOCATION {_text(place)} TBLPROPERTIES ('table_type' = 'DELTA');"
        )
        yield statement("athena", create)
        snowflake = (
            f"CREATE ICEBERG TABLE {schema}.{table} CATALOG = 'delta_files' EXTERNAL_VOLUME = 'lake' "
            f"BASE_LOCATION = {_text('/'.join(place.rsplit('/', 2)[1:]))} AUTO_REFRESH = TRUE;"
        )
        yield statement("snowflake", snowflake, note=_SNOWFLAKE.format(format="DELTA", name="delta_files"))
        options = f"format = 'DELTA_LAKE', uris = [{_text(place)}]"
        create = f"CREATE EXTERNAL TABLE {schema}.{table} WITH CONNECTION `{_CONNECTION}` OPTIONS ({options});"
        yield statement("bigquery", create)


def _iceberg(name: str, iceberg: PublishedFormat | None) -> Iterator[EngineStatement]:
    if iceberg is None or not iceberg.pointer:
        return
    schema, table = _identifiers(name)
    place, pointer, (lake, database, folder) = iceberg.place, iceberg.pointer, iceberg.place.rsplit("/", 2)

    def statement(engine: str, text: str, *, is_tried: bool = False, note: str = "") -> EngineStatement:
        return EngineStatement(name, engine, "iceberg", text, is_tried, note)

    spark = f"SELECT * FROM lake.`{database}`.`{folder}`;"
    yield statement("spark", spark, is_tried=not _is_bucket(place), note=_SPARK.format(lake=lake))
    yield statement("duckdb", f"SELECT * FROM iceberg_scan({_text(place)});", is_tried=True)
    arguments = f"schema_name => {_text(schema)}, table_name => {_text(table)}, table_location => {_text(place)}"
    call = f"CALL iceberg.system.register_table({arguments});"
    yield statement("trino", call, note=f"{_TRINO.format(catalog='iceberg')} {_PINNED}")
    function = "icebergS3" if _is_bucket(place) else "icebergLocal"
    yield statement("clickhouse", f"SELECT * FROM {function}({_text(place)});")
    if _is_bucket(place):
        metadata = _text("/".join(pointer.rsplit("/", 4)[1:]))
        snowflake = (
            f"CREATE ICEBERG TABLE {schema}.{table} CATALOG = 'iceberg_files' EXTERNAL_VOLUME = 'lake' "
            f"METADATA_FILE_PATH = {metadata};"
        )
        note = f"{_SNOWFLAKE.format(format='ICEBERG', name='iceberg_files')} {_PINNED}"
        yield statement("snowflake", snowflake, note=f"{note} ALTER ICEBERG TABLE … REFRESH names a newer one.")
        options = f"format = 'ICEBERG', uris = [{_text(pointer)}]"
        create = f"CREATE EXTERNAL TABLE {schema}.{table} WITH CONNECTION `{_CONNECTION}` OPTIONS ({options});"
        yield statement("bigquery", create, note=_PINNED)


def _in_catalog(
    name: str, iceberg: PublishedFormat | None, catalog: CatalogSettings | None
) -> Iterator[EngineStatement]:
    """By the table's name in a catalog, where engines find each newer snapshot."""
    if iceberg is None or iceberg.catalog is None or catalog is None:
        return
    parts = iceberg.catalog.namespace, iceberg.catalog.table
    note = f"Through {catalog.place}, as catalog lake: {{settings}}."

    def statement(engine: str, text: str, settings: str, *, is_tried: bool = False) -> EngineStatement:
        return EngineStatement(name, engine, "iceberg", text, is_tried, note.format(settings=settings))

    spark = "spark.sql.catalog.lake = org.apache.iceberg.spark.SparkCatalog, spark.sql.catalog.lake.type = "
    trino = "connector.name = iceberg, iceberg.catalog.type = "
    select = "SELECT * FROM lake." + ".".join("`" + part.replace("`", "``") + "`" for part in parts) + ";"
    quoted = "SELECT * FROM lake." + ".".join('"' + part.replace('"', '""') + '"' for part in parts) + ";"
    if catalog.type == "rest":
        in_spark, in_trino = (
            (
                f", spark.sql.catalog.lake.warehouse = {catalog.warehouse}",
                f", iceberg.rest-catalog.warehouse = {catalog.warehouse}",
            )
            if catalog.warehouse
            else ("", "")
        )
        uri = f"{spark}rest, spark.sql.catalog.lake.uri = {catalog.uri}{in_spark}"
        yield statement("spark", select, uri, is_tried=not catalog.has_credentials)
        authorization = ", AUTHORIZATION_TYPE 'none'" if not catalog.has_credentials else ""
        attach = (
            f"ATTACH IF NOT EXISTS {_text(catalog.warehouse or '')} AS lake (TYPE iceberg, ENDPOINT "
            f"{_text(catalog.uri)}{authorization});"
        )
        settings = "with a secret of TYPE iceberg, if it asks for credentials"
        yield statement("duckdb", f"{attach}\n{quoted}", settings, is_tried=not catalog.has_credentials)
        yield statement("trino", quoted, f"{trino}rest, iceberg.rest-catalog.uri = {catalog.uri}{in_trino}")
    else:
        jdbc = f"jdbc:… of {catalog.uri}"
        yield statement("spark", select, f"{spark}jdbc, spark.sql.catalog.lake.uri = {jdbc}")
        settings = f"{trino}jdbc, iceberg.jdbc-catalog.catalog-name = {catalog.name}, …connection-url = {jdbc}"
        yield statement("trino", quoted, settings)


def _identifiers(name: str) -> tuple[str, str]:
    """Names for an engine's schema and table, which every engine accepts without quotes."""
    database, _, table = (re.sub(r"\W", "_", part, flags=re.ASCII).lower() for part in name.partition("."))
    return database, table


def _plain(place: str) -> str:
    """Where readers of Delta find a table: some decode a percent-encoded name, so it has a link (docs/destinations)."""
    return place if _is_bucket(place) else unquote(place)


def _is_bucket(place: str) -> bool:
    return "://" in place


def _text(value: str) -> str:
    """A text of SQL."""
    return "'" + value.replace("'", "''") + "'"
