"""What the console may import."""

import ast
from pathlib import Path

from app.parts.engine import ROOT

APP = Path(__file__).parents[3] / "app"
FORBIDDEN = (
    "tests",
    "pyspark",
    "deltalake",
    "engine.spark",
    "engine.sink",
    "engine.run",
    "engine.capture",
    "engine.ledger",
)


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


def test_the_view_is_pure() -> None:
    """No Streamlit, no files, no clock: only functions of their arguments."""
    for path in (APP / "view").glob("*.py"):
        wrong = {
            name for name in imports(path) if name.split(".")[0] in ("streamlit", "duckdb", "os", "pathlib", "time")
        }
        assert not wrong, path
        assert "engine.clock" not in imports(path), path


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
