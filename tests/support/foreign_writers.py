"""Writes to a Delta table with programs that Tidemark does not use.

`tests.support.readers` runs it in their environments.

python foreign_writers.py ENVIRONMENT WRITER FOLDER: in a table with the columns id (text) and v, the row `key 017` gets
v = 1000, and a copy of it named `key 900` is added.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # Python is isolated there, and runs this file alone


def with_polars(_environment: str, folder: str) -> None:
    """A merge and an append."""
    import polars as pl

    row = pl.scan_delta(folder).filter(pl.col("id") == "key 017").with_columns(v=pl.lit(1000, pl.Int32)).collect()
    aliases = {"predicate": "s.id = t.id", "source_alias": "s", "target_alias": "t"}
    merge = row.write_delta(folder, mode="merge", delta_merge_options=aliases)
    merge.when_matched_update_all().execute()
    row.with_columns(id=pl.lit("key 900")).write_delta(folder, mode="append")


def with_spark(environment: str, folder: str) -> None:
    """UPDATE and INSERT."""
    spark = import_module("foreign_readers").spark_session(environment)
    spark.sql(f"UPDATE delta.`{folder}` SET v = 1000 WHERE id = 'key 017'")
    added = spark.read.format("delta").load(folder).where("id = 'key 017'")
    named = [f"'key 900' AS {name}" if name == "id" else name for name in added.columns]
    added.selectExpr(*named).write.format("delta").mode("append").save(folder)


WRITERS: dict[str, Callable[[str, str], None]] = {"polars": with_polars, "spark": with_spark}


if __name__ == "__main__":
    WRITERS[sys.argv[2]](sys.argv[1], sys.argv[3])
