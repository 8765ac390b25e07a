"""Advice names forms of the console instead of commands."""

import pytest

from app.common.view.hints import for_console, for_wizard

CASES = [
    ("Resnapshot it: tidemark redump SPEC --table shop.orders", "Resnapshot it: redump shop.orders on the page Redump"),
    (
        "To resnapshot the tables: tidemark redump SPEC --all, then run",
        "To resnapshot the tables: redump everything on the page Redump, then run",
    ),
    (
        "tidemark redump SPEC --table a.b --table c.d, then run, or tidemark remove-table SPEC --table a.b",
        "redump a.b, c.d on the page Redump, then run, or remove a.b on the page Live, Tables",
    ),
    ("Add them (tidemark add-table SPEC --table a.b)", "Add them (add a.b on the page Live, Tables)"),
    ("resnapshot the table: tidemark redump SPEC --table …", "resnapshot the table: redump it on the page Redump"),
    (
        "Repair them: tidemark verify SPEC --table a.b --repair",
        "Repair them: choose a.b on the page Verify, then Repair",
    ),
    ("To repair: tidemark verify SPEC --repair", "To repair: choose a table on the page Verify, then Repair"),
    ("tidemark remove-table SPEC --table a.b --drop and", "remove and drop a.b on the page Live, Tables and"),
    ("Capture them: tidemark add-table SPEC --table …, or", "Capture them: add them on the page Live, Tables, or"),
    ("report it with `tidemark bundle SPEC`.", "report it with the page Diagnostics."),
    ("so does: tidemark resume SPEC --table a.b", "so does: tidemark resume SPEC --table a.b"),
    (
        "Find what slows it down (status, the console's readers)",
        "Find what slows it down (the readers on the page Live)",
    ),
    ("Make room on the disk.", "Make room on the disk."),
]


@pytest.mark.parametrize(("hint", "shown"), CASES)
def test_forms_stand_for_commands(hint: str, shown: str) -> None:
    """A command without a form stays a command."""
    assert for_console(hint) == shown


def test_labels_stand_for_settings() -> None:
    """The wizard has fields; a setting without one stays."""
    assert (
        for_wizard("Check source.host and source.port, or source.heartbeat.")
        == "Check Host and Port, or source.heartbeat."
    )
    refused = "Check source.user, and the password that source.password_env or source.password_file names."
    assert for_wizard(refused).startswith("Check User, and the password that Name of the environment variable")
    assert for_wizard(refused, sent=False).startswith("No password was sent.")
