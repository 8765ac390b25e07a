"""What `make test` runs of the tests that there are."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.depth import SERVERS_DIFFER
from tests.support.pages import ROOT

EXAMPLES = """
import pytest

@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request):
    return request.param

@pytest.mark.parametrize("size", [1, 2])
def test_a(flavor, size): ...

@pytest.mark.soak
def test_b(flavor): ...

def test_c(): ...
"""
HOOKS = """
from tests.support.depth import short_run

def pytest_configure(config):
    config.addinivalue_line("markers", "soak: left out")

def pytest_collection_modifyitems(items):
    items[:] = short_run(items)
"""


def test_each_module_about_servers_exists() -> None:
    """A name without a module would mean that its tests run on one server."""
    for module in SERVERS_DIFFER:
        assert (ROOT / "tests" / "live" / f"{module}.py").is_file(), module


def test_one_server_is_chosen_where_they_do_not_differ(tmp_path: Path) -> None:
    """With each other parameter; a soak test is left out."""
    (tmp_path / "conftest.py").write_text(HOOKS)
    modules = ("live/test_stops.py", "live/test_values.py", "live/test_kafka_contract.py", "unit/test_x.py")
    for module in modules:
        (tmp_path / module).parent.mkdir(exist_ok=True)
        (tmp_path / module).write_text(EXAMPLES)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    tests = [line.partition("::") for line in shown.splitlines() if "::" in line]
    assert Counter(module for module, _, _ in tests) == dict(zip(modules, (3, 5, 2, 5), strict=True))
    assert not [test for _, _, test in tests if test.startswith("test_b")]
