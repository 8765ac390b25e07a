"""How a run begins, holds its pipeline and ends.

early_start       Spark's JVM, before anything else
runner            one run, from the lock to the last commit; `run_assembly` builds what outlives a server or a session
workplace         where a run works; `takeover`: from an earlier runner; `run_start`: where it begins
source_check      preflight; also `destination_check`, `inbox_check`, `route_check`, `continuation_check`
disk_retries      steps of a start that a full disk delays; `startup_progress`
spark_sessions    the Spark session; `source_connection`, `source_reads`: what is open on the source
coordinator       the epoch loop, built by `epoch_assembly`; `epoch_commit`: one epoch; `epoch_retries`: after a failure
recovery_loop     epochs again after a failover, or a lost source or session
table_changes     tables that join, leave or change between epochs; `pending_work`: what is left to do
publishing        opens the destinations; `final_checks`: whether the run reached its goal
"""
