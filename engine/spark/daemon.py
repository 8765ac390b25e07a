"""Replaces `pyspark.daemon`: the process from which Spark forks the readers of a local session.

It has imported everything that a reader needs. Importing takes a second of CPU time, which each reader would spend
itself; with a slot per core of a large machine, that would be the longest part of a session's start. `pyspark.daemon`
also collects garbage after each task: 60 ms for these modules, nothing once they are frozen.

Spark ends a task by closing its connection, as when a run stops. `pyspark.daemon` then prints a traceback: the reader
could not flush its answer, or write at all, and ends. Nobody waits for that answer, so it is not printed here.
"""

import gc
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pandas as pd  # noqa: F401 - PySpark imports it for the first task of each reader
from pyspark import daemon

import engine.capture.tasks  # noqa: F401 - imported for the modules that it loads

_FLUSH = "failed to flush the output"
_CLOSED = ("BrokenPipeError", "ConnectionResetError")


def _print(*words: Any, **options: Any) -> None:
    """Print, unless it is about an answer that nobody waits for."""
    text = " ".join(map(str, words))
    if _FLUSH not in text or not any(name in text for name in _CLOSED):
        print(*words, **options)  # noqa: T201 - in place of PySpark's


def _print_exc() -> None:
    """Print the exception that ends a reader, unless Spark has closed its connection."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


vars(daemon)["print"] = _print
vars(daemon)["traceback"] = SimpleNamespace(format_exc=traceback.format_exc, print_exc=_print_exc)

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
