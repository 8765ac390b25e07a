"""What a Spark task does: read chunks, read segments of the binlog, backfill, decide what is emitted, write Parquet files."""
