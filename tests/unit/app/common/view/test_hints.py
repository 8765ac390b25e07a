"""Advice names forms of the console instead of commands."""

import re

import pytest

from app.common.view.hints import comes_back, for_console, for_wizard
from engine.base.errors import TableStoppedError, if_captured, stop_of
from engine.journal.alert_kinds import ALERTS, remedy

CASES = [
    (
        "Resnapshot it: tidemark redump SPEC --table shop.orders",
        "Resnapshot it: redump shop.orders on the page Redump.",
    ),
    (
        "To resnapshot the tables: tidemark redump SPEC --all, then run",
        "To resnapshot the tables: redump everything on the page Redump, then run",
    ),
    (
        "tidemark redump SPEC --table a.b --table c.d, then run, or tidemark remove-table SPEC --table a.b",
        "redump a.b, c.d on the page Redump, then run, or remove a.b on the page Live, Tables.",
    ),
    ("Add them (tidemark add-table SPEC --table a.b)", "Add them (add a.b on the page Live, Tables)"),
    ("resnapshot the table: tidemark redump SPEC --table …", "resnapshot the table: redump it on the page Redump."),
    (
        "Repair them: tidemark verify SPEC --table a.b --repair",
        "Repair them: choose a.b on the page Verify, then Verify this table, then Repair if rows differ.",
    ),
    (
        "To repair: tidemark verify SPEC --repair",
        "To repair: choose a table on the page Verify, then Verify this table, then Repair if rows differ.",
    ),
    ("tidemark remove-table SPEC --table a.b --drop and", "remove and drop a.b on the page Live, Tables and"),
    ("Capture them: tidemark add-table SPEC --table …, or", "Capture them: add them on the page Live, Tables, or"),
    ("report it with `tidemark bundle SPEC`.", "report it with the page Diagnostics."),
    ("so does: tidemark resume SPEC --table a.b", "so does: tidemark resume SPEC --table a.b"),
    (
        "Find what slows it down (status, the console's readers)",
        "Find what slows it down (the readers on the page Live)",
    ),
    (
        "Resnapshot it: tidemark redump SPEC --table a.b. Or: tidemark remove-table SPEC --table a.b",
        "Resnapshot it: redump a.b on the page Redump. Or: remove a.b on the page Live, Tables.",
    ),
    ("Make room on the disk.", "Make room on the disk."),
]


@pytest.mark.parametrize(("hint", "shown"), CASES)
def test_forms_stand_for_commands(hint: str, shown: str) -> None:
    """A command without a form stays a command."""
    assert for_console(hint) == shown


ABOVE = [
    (
        "Resnapshot it: tidemark redump SPEC --table a.b. Or: tidemark remove-table SPEC --table a.b",
        "Resnapshot it: the button Resnapshot below. Or: the button Remove below.",
    ),
    ("redump both: tidemark redump SPEC --table a.b --table c.d", "redump both: redump a.b, c.d on the page Redump."),
    ("tidemark remove-table SPEC --table a.b --drop it", "remove and drop a.b on the page Live, Tables it"),
]


@pytest.mark.parametrize(("hint", "shown"), ABOVE)
def test_buttons_below_stand_for_commands_of_one_table(hint: str, shown: str) -> None:
    """No other page is named for what the button does."""
    assert for_console(hint, above_buttons=True) == shown


@pytest.mark.parametrize("kind", ALERTS)
@pytest.mark.parametrize("above_buttons", [False, True])
def test_what_to_do_about_an_alert_ends_with_a_full_stop(kind: str, *, above_buttons: bool) -> None:
    """Also where a command ended it; one without a form is to be copied."""
    shown = for_console(remedy(kind, "d.t"), above_buttons=above_buttons)
    assert shown.endswith(".") or re.search(r"tidemark [a-z-]+ SPEC[^.]*( --table d\.t)?$", shown), shown
    assert not re.search(r"[a-z] (Or|Then|If) ", shown), shown


def test_the_hint_of_a_stop_is_made_of_sentences() -> None:
    """Whatever the error said."""
    assert "redump SPEC --table d.t then" in stop_of(TableStoppedError("m", hint=if_captured("…")), "d.t").hint
    assert "--table 'd.t u' excludes" in stop_of(TableStoppedError("m", hint=if_captured("…")), "d.t u").hint
    assert stop_of(TableStoppedError("m", hint="Fix the disk"), "d.t").hint.startswith("Fix the disk. Then ")
    assert not comes_back(stop_of(TableStoppedError("m", hint="Fix the disk."), "d.t").hint)


def test_labels_stand_for_settings() -> None:
    """The wizard has fields; a setting without one stays."""
    assert (
        for_wizard("Check source.host and source.port, or source.heartbeat.")
        == "Check Host and Port, or source.heartbeat."
    )
    refused = "Check source.user, and the password that source.password_env or source.password_file names."
    assert for_wizard(refused).startswith("Check User, and the password that Name of the environment variable")
    assert for_wizard(refused, sent=False).startswith("No password was sent.")
