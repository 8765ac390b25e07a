"""Spark sessions and the jobs that run readers. Nothing else imports pyspark.

session                opens a session, checks its workers (`workers`) and counts its slots
kinds                  our own driver or a Connect server, and Spark's settings (memory, …); `daemon` forks readers
jobs                   runs tasks and collects their reports; `failures`: Spark's errors as ours
trial                  a session as a run would open it, for `check` and the wizard
"""
