"""Every hint has a trial: a test that does what it says, or a reason why it needs none."""

import ast
from collections import Counter
from pathlib import Path

from tests.support.hint_trials import MOST_UNTRIED, REGISTER, UNTRIED
from tests.support.hints import hints

TESTS = Path(__file__).parents[1]


def test_every_hint_is_in_the_register() -> None:
    """A new hint needs an entry in `tests/support/hint_trials.py`; one that is gone has none."""
    found = {place: len(texts) for place, texts in hints().items()}
    registered = {place: count for place, (count, _) in REGISTER.items()}
    assert {place: (found.get(place), registered.get(place)) for place in found.keys() ^ registered.keys()} == {}
    assert {place: texts for place, texts in hints().items() if len(texts) != registered[place]} == {}


def test_every_trial_exists() -> None:
    """As a function of the live tests, or of the unit tests."""
    known = {
        f"{path.name}::{node.name}"
        for folder in ("live", "unit")
        for path in (TESTS / folder).rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    named = {test for _, trials in REGISTER.values() if isinstance(trials, tuple) for test in trials}
    assert named - known == set()


def test_the_hints_that_are_not_tried_become_fewer() -> None:
    """None is added to them."""
    assert Counter(trials for _, trials in REGISTER.values())[UNTRIED] == MOST_UNTRIED


def test_hints_are_found_wherever_they_are_written() -> None:
    """In an error, a check, a variable, a table of errors, and a function that returns them."""
    found = hints()
    for place, text in {
        "destination/published_tables.py::_table_error": "Check its folder in the destination",
        "source/preflight.py::_engine": "ENGINE = InnoDB;",
        "source/connect.py::": "Set gtid_mode = ON_PERMISSIVE",
        "source/column_grants.py::": "GRANT SELECT ON … TO …;",
        "run/tables/membership_commands.py::_check_added": "To redump it: tidemark redump SPEC --table …",
    }.items():
        assert any(text in hint for hint in found[place]), place
