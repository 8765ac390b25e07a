"""What Spark's failures mean, by messages of Spark 4.3."""

import pytest

from engine.base.errors import PreflightError, SparkLostError, TransientError
from engine.spark.failures import explained

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 8 times, most recent failure: Lost task 0.7 in stage "
    "3.0 (TID 9) (10.0.0.7 executor 4): "
)
VERSIONS = (
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark cannot "
    "run with different minor versions.\nPlease check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON "
    "are correctly set."
)
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


def message(text: str, *hosts: str) -> str:
    """The error's message, with these hosts."""
    error = explained(text, "spark://m:7077", "set PYTHON", lambda: hosts)
    assert error is not None
    assert error.detail
    assert error.hint
    return f"{type(error).__name__}: {error.message}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOST + CRASHED, "TransientError: A task lost its worker on 10.0.0.7 (Python worker exited unexpectedly)"),
        (LOST + "ExecutorLostFailure (executor 4 exited) Reason: Command exited with code 137",
        "on 10.0.0.7 (ExecutorLost"),
        (LOST + "ModuleNotFoundError: No module named 'pymysql.cursors'",
        "on 10.0.0.7 lacks the Python package pymysql."),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed",
        "of spark://m:7077 lacks the Python package PyArrow."),
        (LOST + 'Cannot run program "py9": error=2, No such file',
        "workers on 10.0.0.7 have no Python interpreter py9."),
        ("<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE", "(UNAVAILABLE)"),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid.",
        "ended the session (INVALID_HANDLE.SESSION_NOT_FOUND)"),
        ("Py4JError: An error occurred while calling z:org.apache.spark.sql.api.python.PythonSQLUtils.ddlToJson",
        "SparkLostError"),
        ("Py4JError: PythonUtils does not exist in the JVM", "SparkLostError"),
        ("PySparkValueError: [CANNOT_PARSE_DATATYPE] No type. An error occurred while calling o9.json.",
        "SparkLostError"),
        ("Cannot call methods on a stopped SparkContext.", "SparkLostError: Spark at spark://m:7077 cannot be reached"),
        (LOST + "OSError: [Errno 28] No space left on device: '/lake/c'",
        "could not write (No space left on device: '/l"),
        ("OSError: [Errno 30] Read-only file system: '/lake/t'",
        "DiskFullError: A task of spark://m:7077 could not write (Read"),
        ("Job 3 cancelled because SparkContext was shut down; ExecutorLostFailure", "SparkLostError"),
    ],
)  # fmt: skip
def test_known_failures_are_reported_with_their_host(text: str, said: str) -> None:
    """Which package on which host; a session that ends loses its workers too, and is reported instead."""
    assert said in message(text)


def test_hosts_are_asked_where_spark_does_not_name_one() -> None:
    """Spark drops the host from Python errors; the message then says that it is one of several."""
    assert (
        message(VERSIONS, "a") == "PreflightError: Spark's workers on a run Python 3.12, and this runner Python 3.11."
    )
    assert "workers on one of a, b run Python 3.12" in message(VERSIONS, "b", "a")
    assert "workers of spark://m:7077 run Python 3.12" in message(VERSIONS)


def test_hosts_are_not_asked_of_a_session_that_is_lost() -> None:
    """Nothing would answer."""

    def never() -> list[str]:
        raise AssertionError

    for text, kind in (("SESSION_CLOSED", SparkLostError), (CRASHED, TransientError)):
        assert type(explained(text, "sc://h", "", never)) is kind


def test_what_is_not_known_is_left_as_it_is() -> None:
    """It may be a bug of ours: its stack trace must be visible."""
    assert explained("ZeroDivisionError: division by zero", "sc://h", "", list) is None
    assert (
        explained("Py4JError: An error occurred while calling o1.f. Trace:\njava.lang.X\n", "local[2]", "", list)
        is None
    )


def test_an_unknown_traceback_is_reduced_to_its_last_line() -> None:
    """Its frames are in the log, where whoever mends the bug looks."""
    text = (
        "PythonException: \n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "/x/jobs.py", line 35, in work\n    yield 1 / 0\n'
        "ZeroDivisionError: division by zero\n\n\tat org.apache.spark.api.python.X(Y.scala:1)\n"
    )
    assert message(text) == "TidemarkError: A task of spark://m:7077 failed: ZeroDivisionError: division by zero"


def test_a_permission_that_is_not_of_the_pipelines_folders_is_no_outage() -> None:
    """A task reports its own folders itself (`capture.write_faults`); the worker's code does not become readable."""
    text = "Traceback (most recent call last):\nPermissionError: [Errno 13] Permission denied: '/opt/worker/code.py'"
    assert message(text).startswith("TidemarkError: A task of spark://m:7077 failed: PermissionError")


def test_remedies_are_named() -> None:
    """The hint says where to set another interpreter."""
    error = explained(VERSIONS, "sc://h", "start it with PYSPARK_PYTHON", list)
    assert isinstance(error, PreflightError)
    assert error.exit_code == 3
    assert "start it with PYSPARK_PYTHON" in error.hint
