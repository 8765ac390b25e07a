"""What a command imports: each answers without the libraries of a run, which take half a second to load."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.ledger.store import Ledger
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, World

RUN = {"pyspark", "py4j", "deltalake", "duckdb", "pyarrow", "numpy", "pandas", "pymysql", "cryptography", "sqlglot"}
RUN |= {"obstore", "fsspec", "httpx", "streamlit", "asyncio"}
CODE = """
import json, sys
from engine.__main__ import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def modules_of(*words: str) -> set[str]:
    """The packages that a command has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert not done.returncode, done.stderr
    modules: set[str] = set(json.loads(done.stdout.splitlines()[-1]))
    return modules


SPEC = """
name = "shop"
[source]
host = "127.0.0.1"
user = "reader"
password_env = "TIDEMARK_TEST_PASSWORD"
tables = ["d.*"]
[sink]
path = "lake"
"""


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_help_imports_no_library_of_a_run(words: tuple[str, ...]) -> None:
    """Nor what reads specs."""
    assert modules_of(*words) & {*RUN, "pydantic"} == set()


@pytest.mark.parametrize("verb", ["run", "status", "read", "verify"])
def test_help_of_a_verb_imports_no_library_of_a_run(verb: str) -> None:
    """Typer imports Pydantic for its parameters."""
    assert modules_of(verb, "--help") & RUN == set()


@pytest.mark.parametrize("ran", [False, True])
def test_status_imports_no_library_of_a_run(tmp_path: Path, *, ran: bool) -> None:
    """Before the first run, and later: unless the ledger does not know yet whether the destination has an epoch."""
    (spec := tmp_path / "shop.toml").write_text(SPEC)
    if ran:
        world = World(tmp_path)
        world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
        world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
        world.epoch()
        world.records[-1] = replace(world.records[-1], applied={"d.t": {"chunks": 1, "changes": 1, "merge": 1}})
        ledger = Ledger(tmp_path / "shop" / "ledger")
        for record in world.records:
            ledger.commit(record)
    assert modules_of("status", str(spec), "--json") & RUN == set()
