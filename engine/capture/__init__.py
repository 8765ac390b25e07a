"""The work of a Spark task.

It reads chunks and binlog ranges, backfills, applies the rule of emission, and writes Parquet files.
"""
