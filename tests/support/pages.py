"""The pages of the documentation: their fenced blocks, their code spans, and the commands in both."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from engine.__main__ import app

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "docs" / "quick-start.md",  # the first, as a reader would
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "quick-start.md"),
)
"""In the order in which their commands can be run."""
SPEC = "SPEC"
"""The placeholder for the path of a spec, in the pages and in the commands here."""
_SPECS = (SPEC, "shop.toml")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=.*")
_PROGRAMS = {"docker", "git", "make", "mysqlbinlog", "pip", "pipx", "python", "python3", "tidemark"}


@dataclass(frozen=True)
class Block:
    """A fenced block. language: the first word behind the fence, or "". line: of the fence, from 1."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def title(self) -> str:
        """Its language and first line."""
        return f"{self.language}: {self.text.splitlines()[0]}"


@dataclass(frozen=True)
class Command:
    """One command of a page.

    words: as a shell would pass them, with `tidemark` for `python -m engine` and `SPEC` for a spec.
    """

    page: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return shlex.join(self.words).replace("'…'", "…")

    @property
    def verb(self) -> str:
        """The command of `tidemark`; "" for other programs."""
        return self.words[1] if self.words[0] == "tidemark" and len(self.words) > 1 else ""


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page. Raises ValueError for one that does not end."""
    return _split(path)[0]


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _split(path)[1]


def spans(path: Path) -> list[str]:
    """The code spans of a page's prose, each on one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(prose(path))]


def commands(path: Path) -> list[Command]:
    """Every command of a page's shell blocks and code spans, in the order of the page."""
    block_texts = [(block.text, block.line) for block in blocks(path) if block.language == "sh"]
    text = path.read_text(encoding="utf-8")
    span_texts = [
        (span, text[: text.index(f"`{span}`")].count("\n") + 1)
        for span in dict.fromkeys(_SPAN.findall(prose(path)))
        if _is_command(span)
    ]
    ordered = sorted([*block_texts, *span_texts], key=lambda pair: pair[1])
    return [Command(path.name, words) for shell, _ in ordered for words in _commands(shell)]


@cache
def verbs() -> dict[str, Any]:
    """The commands of the command line, as its own parser has them."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def _split(path: Path) -> tuple[list[Block], str]:
    page_blocks: list[Block] = []
    outside: list[str] = []
    fence, language, start = "", "", 0
    inside: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, language, start, inside = match[1], (match[2].split() or [""])[0], number, []
        elif fence and match and match[1].startswith(fence) and not match[2].strip():
            page_blocks.append(Block(path.name, start, language, "\n".join(inside) + "\n"))
            fence = ""
        elif fence:
            inside.append(line)
        else:
            outside.append(line)
    if fence:
        raise ValueError(f"{path.name}:{start}: this block does not end")
    return page_blocks, "\n".join(outside)


def _is_command(span: str) -> bool:
    """Whether a code span is a complete command rather than a command's name."""
    first, *rest = span.split() or [""]
    if _ASSIGNED.fullmatch(first) and rest:
        return _is_command(" ".join(rest))
    if first == "tidemark" and len(rest) == 1 and rest[0] in verbs():
        return not _takes_spec(rest[0])
    is_program = first in _PROGRAMS or first.startswith(".venv/")
    return bool(rest) and (is_program or (first in verbs() and (rest[0] == SPEC or rest[0].startswith("--"))))


def _commands(shell: str) -> Iterator[tuple[str, ...]]:
    for line in shell.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word not in ("&&", "||", "|", ";"):
                words.append(word)
            elif words:
                yield _normal(words)
                words = []


def _normal(words: list[str]) -> tuple[str, ...]:
    while len(words) > 1 and _ASSIGNED.fullmatch(words[0]):
        words = words[1:]
    if words[:3] == ["python", "-m", "engine"]:
        words = ["tidemark", *words[3:]]
    elif words[0] in verbs():
        words = ["tidemark", *words]
    words = [SPEC if word in _SPECS else word for word in words]
    if words[0] == "tidemark" and len(words) > 2 and words[1] in verbs() and words[2].startswith("--"):
        words[2:2] = [SPEC] if _takes_spec(words[1]) else []
    return tuple(words)


def _takes_spec(verb: str) -> bool:
    return any(parameter.metavar == SPEC for parameter in verbs()[verb].params)
