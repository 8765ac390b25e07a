"""What an installation with pip gets: every package that the engine and the console import."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_imported_package_is_a_dependency() -> None:
    """A package that only a test or another package brings is missing elsewhere."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {_plain(re.split("[<>=!~ ;[]", text)[0]) for text in project["dependencies"]}
    known = packages_distributions()
    imported: dict[str, str] = {}
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            imported |= {name.split(".")[0]: path.name for name in names}
    missing = {
        name: where
        for name, where in imported.items()
        if name not in sys.stdlib_module_names | {"engine", "app"}
        and not {_plain(one) for one in known.get(name, [name])} & declared
    }
    assert not missing
    assert "fsspec" in imported
