"""Code that reads a mirror with the tools that people have at hand."""

from engine.spec.catalog_settings import CatalogSettings


def reading(
    place: str, iceberg: str = "", catalog: CatalogSettings | None = None, name: str = ""
) -> dict[str, tuple[str, str]]:
    """By tool, the language and a few lines.

    All of them are right with deletion vectors. place: the folder of the mirror. iceberg: that of its Iceberg metadata;
    "" without. catalog: in which it is registered by a name.
    """
    text = place.replace("'", "''")
    return {
        "DuckDB": ("sql", f"INSTALL delta; LOAD delta;\nSELECT * FROM delta_scan('{text}') LIMIT 10;"),
        "Spark": ("python", f'spark.read.format("delta").load({place!r}).show(10)'),
        "Polars, pandas": (
            "python",
            f"import polars as pl\nframe = pl.scan_delta({place!r}).head(10).collect()\nframe.to_pandas()",
        ),
        **(_reading_iceberg(iceberg) if iceberg else {}),
        **({"pyiceberg (catalog)": ("python", _from_catalog(catalog, name))} if catalog is not None and name else {}),
    }


def _from_catalog(catalog: CatalogSettings, name: str) -> str:
    title = "lake" if catalog.type == "rest" else catalog.name
    warehouse = f", warehouse={catalog.warehouse!r}" if catalog.warehouse else ""
    credentials = ""
    if catalog.has_credentials:
        credentials = (
            "# Its credentials: token=… or credential=…\n" if catalog.type == "rest" else "# With a password\n"
        )
    return (
        f"from pyiceberg.catalog import load_catalog\n{credentials}"
        f"catalog = load_catalog({title!r}, type={catalog.type!r}, uri={catalog.uri!r}{warehouse})\n"
        f"catalog.load_table({name!r}).scan(limit=10).to_arrow()"
    )


def _reading_iceberg(place: str) -> dict[str, tuple[str, str]]:
    text, lake, database, table = place.replace("'", "''"), *place.rsplit("/", 2)
    warehouse = (
        "# --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0\n"
        "# --conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog\n"
        "# --conf spark.sql.catalog.lake.type=hadoop\n"
        f"# --conf spark.sql.catalog.lake.warehouse={lake}\n"
    )
    frames = (
        "import polars as pl\nfrom pyiceberg.table import StaticTable\n"
        f"table = StaticTable.from_metadata({place!r})\npl.scan_iceberg(table).head(10).collect()"
    )
    return {
        "DuckDB (Iceberg)": (
            "sql",
            f"INSTALL iceberg; LOAD iceberg;\nSELECT * FROM iceberg_scan('{text}') LIMIT 10;",
        ),
        "Spark (Iceberg)": ("python", f'{warehouse}spark.table("lake.`{database}`.`{table}`").show(10)'),
        "Polars (Iceberg)": ("python", frames),
    }
