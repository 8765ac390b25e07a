"""A pipeline's folder and the files in it, which the runner, the console and the command line share.

directory.py          the paths of all files; `formats`: their versions
command_file.py       commands to a runner; `command_queue`: those that wait; `inbox_access`: who may send them
runner_file.py        whether a runner lives, and what it says of itself (`runner_record`)
pipeline_lock.py      one runner at a time, and who waits for its place; in a bucket, `remote_state.lease`. What the
                      next one does before it writes: `engine.run.lifecycle.takeover`. `launch` starts a runner
controls.py           settings of operators that outlive the runner
verifications.py      how far each table is verified (`verification_records`); `table_verdict`: what that means now
disk.py               waits while nothing can be written; `full_disks`: why; `write_outage`: its record
state_machines.py     the states of runners, tables and chunks; `state_words`: their names
saved_lists.py        active alerts (`active_alert`), parked chunks, standby runners
known_lag.py          what is known of the lag
mismatch.py           tables whose destination is not what the ledger has published
helpers.py            threads beside the coordinator
remote_state/         the same files in a bucket
"""
