"""Epochs: what the coordinator commits, and how it is delivered.

epoch_reader           reads the binlog range after the committed position, and redumped parts: a task for each part,
                       which `epoch.split_range` makes, with sequence numbers of its own, so that their order is that
                       of the binlog. `epoch`: pure functions
pending_chunks         finished chunks that wait for the next epoch; `epoch_pace`: how long the coordinator waits
delivery               committed epochs to the publisher; `publisher_commands`: maintenance, merges and redumps
failed_table           a table whose destination failed is resnapshotted, or stops

`run.lifecycle.epoch_commit` takes the steps of one epoch. `delivery` commits it by its file in the ledger
(`ledger.store`) and hands it to the publisher. Then its rows are committed to each table of the
destination, in Delta by `destination.delta.log.delta_log`.
"""
