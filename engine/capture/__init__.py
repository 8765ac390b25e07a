"""The work of a Spark task.

It reads chunks and binlog ranges, backfills, applies the rule of emission, and writes Parquet files.

chunk         one chunk: watermarks, SELECT, backfill
binlog        one range of the binlog: transactions, row changes, emission
projection    which columns and rows are published: `columns`, masks and row filters of the spec
landing       where files go, and how a mirror is read back
"""
