"""The work of a Spark task: reads chunks and binlog ranges, backfills, applies the rule of emission, writes Parquet files."""
