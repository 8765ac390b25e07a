"""What the console may import."""

import ast
from pathlib import Path

import pytest

from app.common.engine import ROOT

APP = Path(__file__).parents[3] / "app"
FORBIDDEN = (
    "tests",
    "pyspark",
    "deltalake",
    "engine.spark",
    "engine.destination",
    "engine.run",
    "engine.status",
    "engine.verify",
    "engine.audit",
    "engine.backup",
    "engine.capture",
    "engine.ledger",
)
ROOMS = {
    "common": set(),
    "live": {"common"},
    **{page: {"common"} for page in ("alerts", "explore", "pipelines", "verify", "wizard")},
    **{page: {"common", "live"} for page in ("history", "table")},
    "screens": {"alerts", "common", "explore", "history", "live", "pipelines", "table", "verify", "wizard"},
}
"""What each room of the console may import of the others. *History* and *Table* show parts of *Live* too."""


def imports(path: Path) -> set[str]:
    """The modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_console_never_imports_spark_sinks_or_the_runner() -> None:
    """It reads files, must start quickly, and must not depend on the state of the engine."""
    for path in APP.rglob("*.py"):
        wrong = {name for name in imports(path) if any(name == f or name.startswith(f"{f}.") for f in FORBIDDEN)}
        assert not wrong, path


@pytest.mark.parametrize("room", ROOMS)
def test_pages_do_not_import_each_other(room: str) -> None:
    """What they share is in `common`."""
    for path in (APP / room).rglob("*.py"):
        entered = {name.split(".")[1] for name in imports(path) if name.startswith("app.")}
        assert entered - {room} <= ROOMS[room], path
    assert {path.name for path in APP.iterdir() if path.is_dir() and not path.name.startswith(("_", "."))} == set(ROOMS)


def test_the_view_is_pure() -> None:
    """No Streamlit, no files, no clock: only functions of their arguments."""
    views = list(APP.glob("*/view/*.py"))
    assert len({path.parent for path in views}) == len(set(ROOMS) - {"alerts", "screens"})
    for path in views:
        wrong = {
            name for name in imports(path) if name.split(".")[0] in ("streamlit", "duckdb", "os", "pathlib", "time")
        }
        assert not wrong, path
        assert "engine.base.clock" not in imports(path), path


def test_the_console_finds_the_engine() -> None:
    """Each process that it starts runs in the root folder."""
    assert (ROOT / "engine" / "spark" / "trial.py").is_file()
    texts = [path.read_text(encoding="utf-8") for path in APP.rglob("*.py")]
    starting = [text for text in texts if "subprocess.run(" in text]
    assert starting
    assert all("cwd=ROOT" in text or "cwd=engine.ROOT" in text for text in starting)


def test_no_table_prints_none() -> None:
    """Every table names what it shows instead of a missing value."""
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "st.dataframe":
                assert "placeholder" in {word.arg for word in node.keywords}, f"{path}:{node.lineno}"
