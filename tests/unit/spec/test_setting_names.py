"""Settings that texts name exist: an operator looks for them in the spec."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.journal.events import Event
from engine.spec.settings import Spec

ROOT = Path(__file__).parents[3]
SECTIONS = {
    section: set(field.annotation.model_fields)
    for section, field in Spec.model_fields.items()
    if field.annotation is not None and hasattr(field.annotation, "model_fields") and section != "spark"
}
"""Without `[spark]`: the settings of Spark itself begin with `spark.` too."""
EVENTS = {event.NAME for event in Event.__subclasses__()}
OTHERS = {"source.password", "alerts.webhook", "alerts.json"}
"""Names by which a spec with a secret is refused, and a file."""
NAME = re.compile(rf"(?<![\w./`])({'|'.join(SECTIONS)})\.([a-z][a-z_0-9]*)")


def _texts(path: Path) -> Iterator[ast.Constant]:
    """The texts of a module, without docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


@pytest.mark.parametrize("room", ["engine", "app"])
def test_settings_that_texts_name_exist(room: str) -> None:
    """Names of events look like them, and are none."""
    unknown = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {match[0]}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for text in _texts(path)
        for match in NAME.finditer(str(text.value))
        if match[2] not in SECTIONS[match[1]] and match[0] not in EVENTS | OTHERS
    ]
    assert not unknown, "\n".join(unknown)
