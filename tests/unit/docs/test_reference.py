"""The generated pages of the documentation, and what the documentation must mention."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.reference import command_line, configuration
from engine.base.errors import ERRORS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("name", "page"), [("configuration", configuration), ("command-line", command_line)])
def test_generated_pages_are_fresh(name: str, page: Callable[[], str]) -> None:
    """`make docs` would change nothing."""
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == page()


def test_every_named_stop_has_an_entry() -> None:
    """Each user-visible error and each exit code is a heading of the operations page."""
    headings = " ".join(re.findall(r"^### (.*)$", (DOCS / "operations.md").read_text(encoding="utf-8"), re.MULTILINE))
    missing = [name for name in ERRORS if name != "TidemarkError" and not re.search(rf"\b{name}\b", headings)]
    assert not missing
    codes = {kind.exit_code for kind in ERRORS.values()} | {0}
    assert not [code for code in codes if f"Exit code {code}" not in headings]


def test_the_front_page_is_one_screen_and_a_half() -> None:
    """At most 150 lines."""
    assert len((DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
