"""What becomes of tables: how a pipeline begins with them, how they join and leave, and what schema changes do to them.

A DDL: `capture.binlog.statements` finds it, `sql.alter` reads its text, `alterations` finds the tables it affects
(`statement_reach`: those that a write logged as text can have reached), `ddl` proves that the rows keep their values,
and `schema_change` decides what happens to the table.

    evolved        the next commit has `ledger.records.TableChange.altered`. `destination.epoch_replay` has the
                   destination's table `alter` its columns. In Delta, `destination.delta.table` does: the mirror gets
                   new columns (`mirror_table`), the change log new columns and wider types (`change_log_table`)
    resnapshotted  it has `TableChange.resnapshot`. The table's `begin_copy` prepares the change log, and the mirror
                   gets the columns with the commit of the last chunk, which replaces it
    stopped        below

A table that has to be resnapshotted often: `resnapshot_limit` lets it wait from the sixth time within an hour on
(`run.lifecycle.table_changes` starts its copy), and stops it at `source.max_resnapshots_per_hour`.

A stop: whoever finds that a table cannot continue raises TableStoppedError. `run.epochs.pending_chunks` collects those
of reads, `run.epochs.epoch` those of the binlog, `run.epochs.delivery` those of the destination, where any error of a
table stops it unless `run.epochs.failed_table` has it resnapshotted. These stop tables themselves: `schema_change`,
`first_epoch` for tables that cannot begin, `run.lifecycle.run_start` for those that became unfit while no run saw it,
`resnapshot_limit` one that was resnapshotted too often, and `membership` one that became a part of a MERGE table.
`base.errors.stop_of` makes each of them a stop, and the next commit keeps it and its reason
(`run.lifecycle.epoch_commit`, or `run.epochs.delivery` at once): `ledger.records.TableChange.stopped`, from then on
`ledger.state.TableState.stopped`.

The way back is a resnapshot: by command (`run.commands.resumption`, redump), by a spec without the cause at the next
start (`cures`), or by itself: a table that was gone appears again (`alterations`), or the account may read it again.
Doubtful rows lead to one at once (`run.epochs.delivery`). A table whose rows the account may not read waits for the
grant (`run.lifecycle.refused_tables`); it stops only if it is altered meanwhile.
"""
