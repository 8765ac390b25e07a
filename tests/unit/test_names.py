"""Names of classes and columns."""

import ast
from collections import defaultdict
from pathlib import Path

from engine.decode import schema

ROOT = Path(__file__).parents[2]


def test_a_class_has_a_name_of_its_own() -> None:
    """Within the engine and the console, the name of a class has one meaning."""
    places = defaultdict[str, list[str]](list)
    for path in sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_columns_of_a_change_log_are_named_in_one_module() -> None:
    """Everywhere else, a constant stands for the name."""
    owner = Path(schema.__file__)
    columns = {value for name, value in vars(schema).items() if name.startswith("TM_")}
    assert "_tm_seq" in columns
    literals = [
        path.relative_to(ROOT).as_posix()
        for path in sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")])
        if path != owner
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in columns
    ]
    assert literals == []
