"""Reads Delta tables with readers that Tidemark does not use; `tests.support.readers` runs it in their environments.

python foreign_readers.py ENVIRONMENT OUT READER,… FOLDER…: the rows of the n-th folder go to OUT/READER-n, as Parquet.
Readers of Iceberg also take a table in a REST catalog, as `rest:URL#NAMESPACE.TABLE`.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DELTA_LAKE = "io.delta:delta-spark_4.2_2.13:4.4.0"
S3 = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Of the Hadoop that pyspark 4.2.1 brings along; 760 MB with what it needs."""
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
Write = Callable[[str, str], object]


def _use_bucket(db: Any) -> None:
    """Let DuckDB read the bucket of the environment, if there is one."""
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        db.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{os.environ['AWS_REGION']}', "
            f"ENDPOINT '{endpoint.partition('://')[2]}', URL_STYLE 'path', USE_SSL {endpoint.startswith('https')})"
        )


def _bucket_properties() -> dict[str, str]:
    """The bucket of the environment for pyiceberg."""
    names = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "s3.region": "AWS_REGION",
    }
    return {name: os.environ[variable] for name, variable in names.items() if variable in os.environ}


def _in_catalog(place: str) -> tuple[str, str]:
    """The URL of a REST catalog and the name of the table; both empty for a folder."""
    url, _, name = place.removeprefix("rest:").partition("#") if place.startswith("rest:") else ("", "", "")
    return url, name


def by_duckdb(_environment: str) -> Write:
    """DuckDB's Delta extension, as its package has it."""
    import duckdb
    import duckdb_extension_delta
    import duckdb_extension_httpfs

    db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name, package in (("httpfs", duckdb_extension_httpfs), ("delta", duckdb_extension_delta)):
        folder = Path(package.__file__).parent
        (extension,) = folder.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension")
        db.load_extension(str(extension))
    _use_bucket(db)
    return lambda folder, out: db.execute(f"COPY (SELECT * FROM delta_scan('{folder}')) TO '{out}' (FORMAT parquet)")


def by_duckdb_iceberg(_environment: str) -> Write:
    """DuckDB's Iceberg extension, as its package has it. Here a folder is that of the Iceberg metadata."""
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_httpfs
    import duckdb_extension_iceberg

    db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    packages = {
        "avro": duckdb_extension_avro,
        "httpfs": duckdb_extension_httpfs,
        "iceberg": duckdb_extension_iceberg,
    }
    for name, package in packages.items():
        folder = Path(str(package.__file__)).parent
        (extension,) = folder.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension")
        db.load_extension(str(extension))
    _use_bucket(db)

    def write(folder: str, out: str) -> None:
        url, name = _in_catalog(folder)
        if url:
            db.execute(f"ATTACH IF NOT EXISTS '' AS lake (TYPE iceberg, ENDPOINT '{url}', AUTHORIZATION_TYPE 'none')")
        rows = f"lake.{name}" if url else f"iceberg_scan('{folder}')"
        db.execute(f"COPY (SELECT * FROM {rows}) TO '{out}' (FORMAT parquet)")

    return write


def by_polars_iceberg(_environment: str) -> Write:
    """Polars, which finds the newest metadata by its hint."""
    import polars as pl
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    def write(folder: str, out: str) -> None:
        url, name = _in_catalog(folder)
        table = (
            load_catalog("lake", type="rest", uri=url, **_bucket_properties()).load_table(name)
            if url
            else StaticTable.from_metadata(folder, _bucket_properties())
        )
        pl.scan_iceberg(table).collect().write_parquet(out)

    return write


def by_spark_iceberg(environment: str) -> Write:
    """Spark with Iceberg's runtime, which is kept in the environment; of a file system alone."""
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars.packages": ICEBERG,
        "spark.jars.ivy": f"{environment}/ivy",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

    def write(folder: str, out: str) -> None:
        url, name = _in_catalog(folder)
        if url:
            spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set("spark.sql.catalog.lake.type", "rest")
            spark.conf.set("spark.sql.catalog.lake.uri", url)
        rows = spark.table(f"lake.{name}") if url else spark.read.format("iceberg").load(folder)
        rows.write.parquet(out)

    return write


def by_polars(_environment: str) -> Write:
    """Polars' own reader of Delta's data files."""
    import polars as pl

    return lambda folder, out: pl.scan_delta(folder).collect().write_parquet(out)


def spark_session(environment: str) -> Any:
    """Spark with Delta Lake's package, which is kept in the environment."""
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars.packages": DELTA_LAKE,
        "spark.jars.ivy": f"{environment}/ivy",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        settings |= {
            "spark.jars.packages": f"{DELTA_LAKE},{S3}",
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
            "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def by_spark(environment: str) -> Write:
    """Spark's own reader."""
    spark = spark_session(environment)
    return lambda folder, out: spark.read.format("delta").load(folder).write.parquet(out)


READERS = {
    "duckdb": by_duckdb,
    "polars": by_polars,
    "spark": by_spark,
    "duckdb-iceberg": by_duckdb_iceberg,
    "polars-iceberg": by_polars_iceberg,
    "spark-iceberg": by_spark_iceberg,
}


if __name__ == "__main__":
    home, target, wanted, *tables = sys.argv[1:]
    for name in wanted.split(","):
        write = READERS[name](home)
        for number, table in enumerate(tables):
            write(table, f"{target}/{name}-{number}")
