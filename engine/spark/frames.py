"""DataFrames of Arrow tables."""

from typing import Any

import pyarrow as pa


def frame_of(spark: Any, rows: pa.Table) -> Any:
    """The rows in a session, with their types.

    A time without a time zone stays one: as Spark's usual type it would be taken for a time of the host's zone, which
    skips an hour a year and repeats another.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(rows, schema=from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
