"""The words of the glossary as tooltips."""

import ast
import tomllib
from pathlib import Path

import pytest

from app.common import meaning
from app.common.view import glossary

ROOT = Path(__file__).parents[5]
TEXT = """
Intro, with words | in it.

| word | meaning | Debezium |
|---|---|---|
| epoch | one commit: `(from, to]` | – |
| watermark, low watermark | the positions that bracket a read | – |
| retention, retention left (`runway_s`) | how long the source keeps its binlog | – |
"""


def terms() -> set[str]:
    """The words that the console explains."""
    calls = [
        call
        for path in (ROOT / "app").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "meaning.of"
    ]
    return {
        word.value
        for call in calls
        for word in call.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }


def test_each_word_has_the_meaning_of_its_row() -> None:
    """A row may define several words, and says in parentheses what the code calls them."""
    retention = "how long the source keeps its binlog"
    bracket = "the positions that bracket a read"
    assert glossary.meanings(TEXT) == {
        "epoch": "one commit: `(from, to]`",
        "watermark": bracket,
        "low watermark": bracket,
        "retention": retention,
        "retention left": retention,
    }


def test_a_tooltip_has_a_paragraph_for_each_word() -> None:
    """After what the place says itself; an unknown word is refused."""
    known = glossary.meanings(TEXT)
    assert glossary.tooltip(known, ("epoch", "retention"), "Seconds.") == (
        "Seconds.\n\n**Epoch**: one commit: `(from, to]`.\n\n**Retention**: how long the source keeps its binlog."
        "\n\n[Glossary](glossary)"
    )
    with pytest.raises(KeyError):
        glossary.tooltip(known, ("eon",))


def test_the_glossary_has_every_word_that_the_console_explains() -> None:
    """Among them those that a newcomer asks about."""
    known = glossary.meanings(meaning.GLOSSARY.read_text(encoding="utf-8"))
    asked = {
        "watermark",
        "backfill",
        "retention left",
        "epoch",
        "chunk",
        "distribution factor",
        "lag",
        "merge on read",
        "redump",
    }
    assert asked <= terms() <= known.keys()


def test_packages_and_images_have_the_glossary() -> None:
    """Without it, nothing would be explained there."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "docs" in tools["packages"]["find"]["include"]
    assert tools["package-data"]["docs"] == ["glossary.md"]
    assert "COPY docs/glossary.md docs/\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_a_console_without_the_glossary_explains_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not fail."""
    monkeypatch.setattr(meaning, "_known", dict)
    assert meaning.of("epoch", also="Seconds.") == "Seconds."
