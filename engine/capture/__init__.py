"""What a Spark task does: read chunks, read binlog ranges, backfill, decide what is emitted, write Parquet files."""
