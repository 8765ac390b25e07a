"""Spark sessions and the jobs that run readers. Nothing else imports pyspark.

session                opens a session, ships our code, checks its workers (`workers`) and counts its slots
kinds                  our own driver or a Connect server, and Spark's settings (memory, …); `daemon` forks readers
store_access           whether workers can write to the bucket
jobs                   runs tasks and collects their reports; `failures`: Spark's errors as ours
trial                  a session as a run would open it, for `check` and the wizard
"""
