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


ENDED = """
import sys
{ours}
from pyspark import daemon
for error in (BrokenPipeError(32, "Broken pipe"), ValueError("another error")):
    try:
        raise error
    except BaseException:  # as the reader's last handler does
        daemon.traceback.print_exc()
"""


@pytest.mark.parametrize("ours", ["", "import engine.spark.daemon"])
def test_a_reader_that_spark_has_ended_leaves_no_traceback(ours: str) -> None:
    """Spark has it end where it cannot flush. Any other exception that ends a reader is printed."""
    found = subprocess.run(
        [sys.executable, "-c", ENDED.format(ours=ours)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ("BrokenPipeError" in found.stderr) == (not ours)
    assert "ValueError: another error" in found.stderr


@pytest.mark.parametrize("ours", ["", "import engine.spark.daemon"])
def test_a_task_that_spark_has_ended_leaves_no_traceback(ours: str) -> None:
    """PySpark's own daemon prints one into the runner's log. Whatever else is printed stays."""
    found = subprocess.run(
        [sys.executable, "-c", CODE.format(ours=ours)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ("BrokenPipeError" in found.stderr) == (not ours)
    assert ("another line" in found.stderr) == bool(ours)
