"""Every hint of the engine's errors, checks and findings, by the function that gives it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"(?i)(^|_)(hint|hints|fix|fixes|remedy|errors|dumps)$|^RESNAPSHOT_ALL$")
"""Names of arguments, variables and tables that contain hints. `_ERRORS` and `_DUMPS` are tables of hints by error
number."""
_GIVES = re.compile(r"remedy|hint|grant_of|minimal_grants|_instead")
"""Names of functions that return hints."""
_LEAST = 8
"""Shorter texts are parts of a hint, such as a blank between two."""


def hints() -> dict[str, list[str]]:
    """By `file::function`, the hints that are written there, each `…` where a value stands.

    What only passes a hint on has none.
    """
    texts_by_place: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "engine").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        positions = _positions(tree)
        for place, node in _scoped(tree, ""):
            for value in _values(node, positions):
                texts_by_place[f"{path.relative_to(ROOT / 'engine')}::{place}"] += _texts(value)
    return {place: texts for place, texts in texts_by_place.items() if texts}


def _scoped(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node below, with the function or class that it is in."""
    for child in ast.iter_child_nodes(node):
        inside = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield scope, child
        yield from _scoped(child, f"{scope}.{child.name}".strip(".") if inside else scope)  # type: ignore[attr-defined]


def _positions(tree: ast.AST) -> dict[str, int]:
    """The functions of a module that take a hint, and as which argument. A method's `self` does not count."""
    positions = {"Check": 5}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            for number, name in enumerate(names):
                if _NAME.search(name) and name != "errors":
                    positions[node.name] = number
    return positions


def _values(node: ast.AST, positions: dict[str, int]) -> Iterator[ast.expr]:
    """The expressions of a node that are hints."""
    if isinstance(node, ast.Call):
        yield from (word.value for word in node.keywords if word.arg and _NAME.search(word.arg))
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yield from node.args[positions.get(called, len(node.args)) :][:1]
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and _NAME.search(target.id) for target in targets):
            yield node.value
    elif isinstance(node, ast.FunctionDef) and _GIVES.search(node.name):
        yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None)


def _texts(value: ast.expr) -> Iterator[str]:
    """The texts of an expression: one, or those of a choice or of a table."""
    if isinstance(value, ast.Constant | ast.JoinedStr):
        text = _text(value)
        if len(text) >= _LEAST:
            yield text
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        text = "".join(map(_text, (value.left, value.right)))
        if len(text) >= _LEAST:
            yield text
    elif isinstance(value, ast.Dict):
        for one in value.values:
            yield from _texts(one)
    elif not isinstance(value, ast.Compare | ast.Call):
        for child in ast.iter_child_nodes(value):
            if isinstance(child, ast.expr):
                yield from _texts(child)


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, ast.JoinedStr):
        return "".join(map(_text, value.values))
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _text(value.left) + _text(value.right)
    return "…"
