"""The process from which Spark forks the readers of a local session, in the place of `pyspark.daemon`.

It has loaded all that a reader runs. Loading takes a second of processor time, which each reader would take for itself: with a
slot for each core of a large machine, that would be the longest part of a session's start. And `pyspark.daemon` collects garbage
after each task: 60 ms for what is loaded here, nothing once it is frozen.
"""

import gc

import pandas as pd  # noqa: F401 - PySpark imports it for the first task of each reader
from pyspark.daemon import manager

import engine.capture.tasks  # noqa: F401 - what it loads is what it is for

if __name__ == "__main__":
    gc.freeze()
    manager()
