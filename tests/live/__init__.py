r"""Tests on real servers and a real Spark.

copies                test_copy, test_chunk, test_plans, test_keys, test_values, test_watermarks
the binlog            test_binlog, test_transaction_forms, test_xa_sessions, test_schema_changes, test_ddl_fuzz,
                      test_positions
kills and disasters   test_copy, test_disaster, test_power_cut, test_disk_full, test_outage, test_frozen; in a bucket:
                      test_bucket_disasters, test_bucket, test_host_takeover, test_remote_state
                      many other tests kill their runner too, and so do powercut/test_runner (`power.cut()`),
                      browser/test_night and browser/test_story;
                      `grep -rlE 'kill\(|SIGKILL|killed=True' tests` lists them, with some that kill a server or Spark
operators             test_commands, test_redump_parts, test_resnapshot, test_membership, test_stops, test_parked
proofs                test_verify, test_audit, test_explore, test_versions
destinations          test_delta_bucket, test_parquet, test_further_sinks, test_maintenance
clusters              test_sessions, test_apart
promises of docs      test_docs; hints of errors: test_*_hints, test_stops, test_preflight_fixes

`support/` has pipelines, tables, workloads and comparisons.
"""
