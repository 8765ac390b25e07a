"""The change logs of tables as plain Parquet files, by date and hour. The example for the next destination."""
