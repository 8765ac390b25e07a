"""The catalog that a spec names."""

from engine.destination.iceberg.catalogs.catalog_protocol import IcebergCatalog
from engine.spec.catalog_settings import CatalogSettings


def catalog_of(settings: CatalogSettings) -> IcebergCatalog:
    """The catalog, to which nothing is sent yet."""
    if settings.type == "sql":
        from engine.destination.iceberg.catalogs.sql_catalog import SqlCatalog

        return SqlCatalog(settings)
    from engine.destination.iceberg.catalogs.rest_catalog import RestCatalog

    return RestCatalog(settings)
