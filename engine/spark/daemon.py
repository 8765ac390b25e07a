"""Replaces `pyspark.daemon`: the process from which Spark forks the readers of a local session.

It has imported everything that a reader needs. Importing takes a second of CPU time, which each reader would spend itself; with a
slot per core of a large machine, that would be the longest part of a session's start. `pyspark.daemon` also collects garbage after
each task: 60 ms for these modules, nothing once they are frozen.
"""

import gc

import pandas as pd  # noqa: F401 - PySpark imports it for the first task of each reader
from pyspark.daemon import manager

import engine.capture.tasks  # noqa: F401 - imported for the modules that it loads

if __name__ == "__main__":
    gc.freeze()
    manager()
