"""The daemon of the readers prints nothing about answers that nobody waits for."""

import subprocess
import sys

import pytest

CODE = """
import socket, sys
{ours}
from pyspark import daemon
ours, spark = socket.socketpair()
spark.close()
daemon.worker(ours, True)
daemon.print("another line", file=sys.stderr) if "print" in vars(daemon) else None
"""


@pytest.mark.parametrize("ours", ["", "import engine.spark.daemon"])
def test_a_task_that_spark_has_ended_leaves_no_traceback(ours: str) -> None:
    """PySpark's own daemon prints one into the runner's log. Whatever else is printed stays."""
    found = subprocess.run(
        [sys.executable, "-c", CODE.format(ours=ours)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ("BrokenPipeError" in found.stderr) == (not ours)
    assert ("another line" in found.stderr) == bool(ours)
