"""Masters: which may retry, which are local, where an interpreter is named."""

import pytest

from engine.spark.kinds import is_local, remedy, retrying


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
    """Unless it is said how often; all others go to Spark as they are."""
    assert retrying(master) == asked
    assert is_local(master) == master.startswith("local")


def test_a_connect_server_chooses_the_interpreter() -> None:
    """Its workers take the server's environment; all others take ours."""
    assert "PYSPARK_PYTHON" in remedy("sc://h")
    assert "spark.pyspark.python" in remedy("yarn")
