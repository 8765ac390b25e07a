"""The words of docs/glossary.md and their meanings, as tooltips."""

import re
from collections.abc import Mapping

_ROW = re.compile(r"^\| (?P<words>[^|]+?) \| (?P<meaning>[^|]+?) \|", re.MULTILINE)
_HEADING = "word"
_LINK = "[Glossary](glossary)"
"""The page `screens/glossary_page.py`, relative to every other page."""


def meanings(text: str) -> dict[str, str]:
    """The meaning of each word of the glossary, which is a Markdown table. A row may define several words."""
    texts = {}
    for row in _ROW.finditer(text):
        for word in re.sub(r" \([^)]*\)", "", row["words"]).split(","):
            texts[word.strip()] = row["meaning"]
    return {word: meaning for word, meaning in texts.items() if word != _HEADING and word.strip("-")}


def tooltip(terms: Mapping[str, str], words: tuple[str, ...], also: str = "") -> str:
    """Markdown with the meanings of these words.

    also: a sentence before them. Raises KeyError if the glossary lacks a word.
    """
    lines = [f"**{word[0].upper()}{word[1:]}**: {terms[word]}." for word in words]
    return "\n\n".join(filter(None, (also, *lines, _LINK)))
