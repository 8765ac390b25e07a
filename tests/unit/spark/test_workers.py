"""What workers need: the list of packages matches what tasks import, and missing ones are named per host."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import PreflightError
from engine.spark.workers import PACKAGES, answer, missing, pins, require, versions

ROOT = Path(__file__).parents[3]
IMPORTS = """
import sys
before = set(sys.modules)
import engine.capture.tasks
print(*{name.split(".")[0] for name in set(sys.modules) - before})
"""
WANTED: dict[str, str | None] = {"numpy": "2.4.6", "pymysql": "1.2.4"}


def worker(host: str, *, sees: bool = True, **found: str | None) -> dict[str, Any]:
    """The answer of a complete worker, with some fields changed."""
    return {"host": host, "pid": 7, "python": "/usr/bin/python3", "found": {**WANTED, **found}, "sees": sees}


def test_all_that_a_task_imports_is_asked_for() -> None:
    """Every distribution that tasks import is on the list, or required by one that is."""
    output = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    owners = metadata.packages_distributions()
    imported = {name.lower() for module in output.split() for name in owners.get(module, [])}
    needed = {
        requirement.split(";")[0].split("[")[0].rstrip("=<>!~.,0123456789 ").lower().replace("-", "_")
        for package in PACKAGES
        for requirement in metadata.requires(package) or []
    }
    assert imported >= {"numpy", "pyarrow", "pymysql"}
    left = {name.replace("-", "_") for name in imported} - set(PACKAGES) - needed
    assert left <= {"annotated_types", "typing_inspection", "mypy_extensions", "isal"}, (
        left
    )  # of pydantic, and of compiled sqlglot


def test_a_worker_says_what_it_has(tmp_path: Path) -> None:
    """This process lacks nothing; it does not see a missing file."""
    (tmp_path / "m").touch()
    found = json.loads(answer(str(tmp_path / "m")))
    assert (found["found"], found["sees"], found["python"]) == (versions(), True, sys.executable)
    assert not json.loads(answer(str(tmp_path / "n")))["sees"]
    assert None not in versions().values()


def test_what_is_missing_is_named_with_its_hosts() -> None:
    """Each package with all hosts that lack it, and what to install."""
    answers = [
        worker("a", pymysql=None),
        worker("b", numpy="1.26.0", pymysql=None),
        worker("c"),
        worker("a", pymysql=None),
    ]
    with pytest.raises(PreflightError) as raised:
        require(answers, WANTED, Path("/lake"), "name another")
    assert "need: numpy 2.4.6 (has 1.26.0) on b; pymysql on a, b." in raised.value.message
    assert "pip install numpy==2.4.6 pymysql==1.2.4. Or name another." in raised.value.hint
    assert "/usr/bin/python3" in raised.value.detail


def test_a_folder_that_is_not_shared_is_named() -> None:
    """A reader would write to a place that nobody reads."""
    with pytest.raises(PreflightError, match="workers on b cannot write to the destination, /lake"):
        require([worker("a"), worker("b", sees=False)], WANTED, Path("/lake"), "")
    require([worker("a")], WANTED, Path("/lake"), "")


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ({"numpy": "2.0.0", "pymysql": "1.2.4"}, []),
        ({"numpy": "", "pymysql": "1.9"}, []),
        ({"numpy": "2.4.6"}, ["pymysql"]),
        ({"numpy": "3.0", "pymysql": None}, ["numpy 2.4.6 (has 3.0)", "pymysql"]),
    ],
)
def test_the_major_version_counts(found: dict[str, str | None], faults: list[str]) -> None:
    """Minor versions may differ, and unknown ones are accepted."""
    assert missing(found, WANTED) == faults
    assert pins({**WANTED, "x": None}, ["x", *faults]).startswith(
        "numpy==2.4.6" if "numpy" in str(faults) else ("pymysql==" if faults else "x")
    )
