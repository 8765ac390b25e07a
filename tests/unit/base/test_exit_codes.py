"""The exit codes mean the same in the code, the documentation, the watchdog and the console."""

import re
from pathlib import Path

import pytest

from app.common.view.health import EXIT_CODES as SHOWN
from app.common.view.health import exit_words
from engine.base.errors import ERRORS
from engine.base.exit_codes import EXIT_CODES, NEEDS_OPERATOR
from engine.watch.restart_rules import after_code

DOCS = Path(__file__).parents[3] / "docs"


def test_each_error_has_a_code_with_a_meaning() -> None:
    """And each meaning is that of an error, or of success."""
    assert {kind.exit_code for kind in ERRORS.values()} | {0} == EXIT_CODES.keys()


def test_the_documented_table_is_that_of_the_code() -> None:
    """In the same words, and each line leads to a section about the code."""
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d)\]\(operations\.md#(\S+)\) \| (.+) \|$", page, re.MULTILINE)
    assert {int(code): meaning for code, _, meaning in rows} == EXIT_CODES
    headings = re.findall(r"^### (.+)$", (DOCS / "operations.md").read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(":", "").replace(" ", "-") for heading in headings}
    assert {anchor for _, anchor, _ in rows} <= anchors


@pytest.mark.parametrize("code", NEEDS_OPERATOR)
def test_the_console_and_the_watchdog_use_the_same_words(code: int) -> None:
    """Code 1 has many causes: the console shows the error, and the watchdog restarts the run."""
    assert SHOWN[code] == EXIT_CODES[code]
    assert exit_words(code, None) == after_code(code) == f"exit code {code}: {EXIT_CODES[code]}"
    assert not after_code(1)
