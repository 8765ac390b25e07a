"""Reads Delta tables with readers that Tidemark does not use; `tests.support.readers` runs it in their environments.

python foreign_readers.py ENVIRONMENT OUT READER,… FOLDER…: the rows of the n-th folder go to OUT/READER-n, as Parquet.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DELTA_LAKE = "io.delta:delta-spark_4.2_2.13:4.4.0"
Write = Callable[[str, str], object]


def by_duckdb(_environment: str) -> Write:
    """DuckDB's Delta extension, as its package has it."""
    import duckdb
    import duckdb_extension_delta

    package = Path(duckdb_extension_delta.__file__).parent
    (extension,) = package.glob(f"extensions/v{duckdb.__version__}/delta.duckdb_extension")
    db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    db.load_extension(str(extension))
    return lambda folder, out: db.execute(f"COPY (SELECT * FROM delta_scan('{folder}')) TO '{out}' (FORMAT parquet)")


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
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def by_spark(environment: str) -> Write:
    """Spark's own reader."""
    spark = spark_session(environment)
    return lambda folder, out: spark.read.format("delta").load(folder).write.parquet(out)


READERS = {"duckdb": by_duckdb, "polars": by_polars, "spark": by_spark}


if __name__ == "__main__":
    home, target, wanted, *tables = sys.argv[1:]
    for name in wanted.split(","):
        write = READERS[name](home)
        for number, table in enumerate(tables):
            write(table, f"{target}/{name}-{number}")
