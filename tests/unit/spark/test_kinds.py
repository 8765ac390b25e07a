"""Kinds of masters: which retry, which are local, where the interpreter is set."""

from pathlib import Path

import pytest

from engine.spark.configuration import configuration, is_local, remedy, retrying
from engine.spec.settings import Spark


@pytest.mark.parametrize(
    ("master", "asked"),
    [
        ("local", "local[1,3]"),
        ("local[2]", "local[2,3]"),
        ("local[*]", "local[*,3]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://h:7077", "spark://h:7077"),
        ("yarn", "yarn"),
        ("k8s://https://h:6443", "k8s://https://h:6443"),
    ],
)
def test_local_masters_are_made_to_retry(master: str, asked: str) -> None:
    """Unless the spec sets the number; all others are passed on unchanged."""
    assert retrying(master) == asked
    assert is_local(master) == master.startswith("local")


def test_a_connect_server_chooses_the_interpreter() -> None:
    """Its workers use the server's environment; all others use ours."""
    assert "PYSPARK_PYTHON" in remedy("sc://h")
    assert "spark.pyspark.python" in remedy("yarn")


def test_own_readers_run_the_code_where_it_lies() -> None:
    """The spec's additions follow on their path; workers on other hosts are sent the code."""
    spark = Spark(master="local[2]", conf={"spark.executorEnv.PYTHONPATH": "/theirs", "spark.driver.memory": "2g"})
    own = configuration(spark, own_python=True)
    ours, theirs = own["spark.executorEnv.PYTHONPATH"].split(":")
    assert (Path(ours) / "engine" / "spark" / "daemon.py").exists()
    assert (theirs, own["spark.driver.memory"]) == ("/theirs", "2g")
    assert own["spark.python.daemon.module"] == "engine.spark.daemon"
    other = configuration(spark, own_python=False)
    assert other["spark.executorEnv.PYTHONPATH"] == "/theirs"
    assert "spark.python.daemon.module" not in other
