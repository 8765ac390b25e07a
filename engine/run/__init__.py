"""The runner: one process a pipeline that plans, assigns, commits and publishes.

lifecycle      a run begins, holds its pipeline and ends; `coordinator` drives its epochs
epochs         what an epoch commits, and how it is delivered; `failed_table` decides what becomes of a table whose
               destination failed
snapshot       reads chunks: scheduling, retries, parking, the throttle
tables         how tables join, leave and change; `schema_change` decides whether one evolves, is resnapshotted or
               stops. The room's docstring tells how a stop comes about, whoever finds that a table cannot continue
redump         reads parts of a table again
commands       the inbox, signals, operators' settings, the heartbeat
monitors       lag, retention, space, hidden changes, blocked reads, foreign writes to mirrors
source_loss    a source that is away, was purged or was replaced, or wrote no binlog for a while
"""
