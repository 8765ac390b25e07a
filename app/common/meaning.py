"""The meanings of the field's words where they stand, from the glossary."""

from functools import cache

from app.common.engine import ROOT
from app.common.view import glossary

GLOSSARY = ROOT / "docs" / "glossary.md"


@cache
def _known() -> dict[str, str]:
    return glossary.meanings(GLOSSARY.read_text(encoding="utf-8")) if GLOSSARY.is_file() else {}


def rows() -> list[dict[str, str]]:
    """Each word with its meaning, in order; empty if this installation has no glossary."""
    return [{"Word": word, "Meaning": meaning} for word, meaning in sorted(_known().items())]


def of(*words: str, also: str = "") -> str:
    """A tooltip (`help=`) with the meanings of these words.

    also: a sentence before them. KeyError: the glossary lacks one.
    """
    return glossary.tooltip(_known(), words, also) if _known() else also
