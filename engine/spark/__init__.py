"""Spark sessions and the jobs that run readers. Nothing else imports pyspark.

session                opens a session, ships our code, checks its workers (`workers`) and counts its slots
kinds                  our own driver or a Connect server; `daemon` forks readers
configuration          Spark's settings (memory, …) of a session with a driver of our own
driver_process         the driver's JVM, which starts before PySpark is loaded
class_archive          makes it start faster; `class_archive_session` is what the archive is made from
store_access           whether workers can write to the bucket
jobs                   runs tasks and collects their reports; `failures`: Spark's errors as ours
trial                  a session as a run would open it, for `check` and the wizard
"""
