"""Spark sessions and the jobs that run readers. Nothing else imports pyspark."""
