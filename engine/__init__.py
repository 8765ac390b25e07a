"""Tidemark's engine: copies tables from MySQL and MariaDB into a lakehouse, and keeps them equal.

It copies in parallel chunks, and follows the binlog. The rooms, in the order of the data:

spec, pipeline     what is to be copied; the folder of a pipeline: state files, commands, lock and lease
source             the only code that talks to MySQL and MariaDB: preflight, positions, watermarks
plan               chunks, chunk keys, and how mirrors are merged
capture            the work of a Spark task: reads chunks and the binlog, backfills, decides what is published; masks
                   and row filters of the spec
decode, sql        bytes of rows and of the binlog to Arrow; statements
ledger             what is committed
destination        applies committed epochs: Delta, Parquet, Kafka, databases; when a mirror is merged
run                the runner: it assigns, commits, throttles, retries, and stops tables
journal, alerting  what happened, in events and sentences; when alerts fire
watch              what happens if the runner is lost or hangs
verify, audit, explore, backup   tools for published tables
history, status    what the console and `status` read
store, spark       files in folders and buckets; sessions
base               shared helpers: errors with their exit codes, the clock, wording. It copies nothing
cli                the verbs

`docs/architecture.md` tells more.
"""

__version__ = "0.1.0"
