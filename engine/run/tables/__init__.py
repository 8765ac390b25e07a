"""What becomes of tables: how a pipeline begins with them, how they join and leave, and what schema changes do to them.

A DDL: `capture.binlog.statements` finds it, `alterations` finds the tables it affects, `ddl` reads its text, and
`schema_change` decides what happens to the table. The next commit has it (`ledger.records.TableChange.altered`). From
there `destination.epoch_replay` has the destination's table `alter` its columns. In Delta, `destination.delta.table`
does: the mirror gets new columns (`mirror_table`), the change log new columns and wider types (`change_log_table`).
`schema_evolution` says which.

A stop: whoever finds that a table cannot continue raises TableStoppedError. `run.epochs.pending_chunks` collects those
of reads, `run.epochs.epoch` those of the binlog, `run.epochs.delivery` those of the destination, where any error of a
table stops it unless `run.epochs.failed_table` has it resnapshotted. `schema_change`, and `first_epoch` and
`run.lifecycle.run_start` for tables that cannot begin, stop tables themselves, and `resnapshot_limit` one that was
resnapshotted too often. `base.errors.stop_of` makes each of them a stop, and the next commit keeps it and its reason:
`ledger.records.TableChange.stopped`, from then on `ledger.state.TableState.stopped`.
"""
