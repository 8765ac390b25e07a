"""Names of classes and columns."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.decode import schema

ROOT = Path(__file__).parents[2]


def defined(path: Path) -> Iterator[str]:
    """The names of the classes and type aliases of a file, without the underscore of private ones."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign) and not node.col_offset and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id.lstrip("_")
            if len(name) > 2 and name[0].isupper() and not name.isupper():
                yield name


def test_a_class_has_a_name_of_its_own() -> None:
    """Within the engine and the console, the name of a class or a type has one meaning, private ones included."""
    places = defaultdict[str, list[str]](list)
    for path in sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")]):
        for name in defined(path):
            places[name].append(path.relative_to(ROOT).as_posix())
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
