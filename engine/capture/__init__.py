"""The work of a Spark task.

It reads chunks and binlog ranges, backfills, applies the rule of emission, and writes Parquet files.

chunk         one chunk: watermarks, SELECT, backfill
binlog        one range of the binlog: transactions, row changes, emission; rows of XA transactions that are prepared
projection    which columns and rows are published: columns, masks and row filters of the spec
tasks         the tasks; `reader_session`: their connection; `reports`, `row_counter`: what they say; `pacing`: pauses
landing       where files go, and how tables are read back; `files`: writes Parquet (row groups, compression);
              `batches`: reads it; `write_faults`
position_order    positions of the binlog as single numbers
spill         rows of a chunk that wait for its high watermark, on disk
redump_requests   what a redump asks for
"""
