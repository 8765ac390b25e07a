"""Names of classes, columns and local variables."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.decode import schema

ROOT = Path(__file__).parents[2]
PARTICIPLES = {
    "found",
    "known",
    "held",
    "lost",
    "shown",
    "drawn",
    "kept",
    "taken",
    "asked",
    "given",
    "owned",
    "spared",
    "restored",
}
"""They say what happened to a thing, and not which thing it is: `tables`, `match`, `outage` do."""


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


def participles(source: str) -> list[tuple[int, str]]:
    """The line and the name of each local variable that is a participle. Fields and parameters may be: `held: bool`."""
    tree = ast.parse(source)
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    names = [
        (node.lineno, node.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields
    ]
    names += [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name]
    return [(line, name) for line, name in names if name in PARTICIPLES]


def test_a_local_variable_is_called_by_a_noun() -> None:
    """However it gets its value: by an assignment, `:=`, `for`, `with` or `except`."""
    for text in (
        "found = 1",
        "a, known = 1, 2",
        "if held := 1: pass",
        "for lost in (): pass",
        "with a as shown: pass",
        "try: pass\nexcept OSError as kept: pass",
    ):
        assert len(participles(text)) == 1
    assert participles("class Alert:\n    held: bool\ndef stop(lost): pass\ntables = []") == []
    places = {
        f"{path.relative_to(ROOT).as_posix()}:{line}": name
        for path in sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")])
        for line, name in participles(path.read_text(encoding="utf-8"))
    }
    assert places == {}
