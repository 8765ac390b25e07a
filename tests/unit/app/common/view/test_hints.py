"""Advice names forms of the console instead of commands."""

import pytest

from app.common.view.hints import for_console, for_wizard

CASES = [
    ("Resnapshot it: tidemark redump SPEC --table shop.orders", "Resnapshot it: page Redump, Table: shop.orders"),
    (
        "To resnapshot the tables: tidemark redump SPEC --all, then run",
        "To resnapshot the tables: page Redump, Everything, then run",
    ),
    (
        "tidemark redump SPEC --table a.b --table c.d, then run, or tidemark remove-table SPEC --table a.b",
        "page Redump, Table: a.b, c.d, then run, or page Live, Tables, Remove tables: a.b",
    ),
    ("Add them (tidemark add-table SPEC --table a.b)", "Add them (page Live, Tables, Add tables: a.b)"),
    ("resnapshot the table: tidemark redump SPEC --table …", "resnapshot the table: page Redump, Table"),
    ("report it with `tidemark bundle SPEC`.", "report it with the page Diagnostics."),
    ("so does: tidemark resume SPEC --table a.b", "so does: tidemark resume SPEC --table a.b"),
    ("Find what slows it down (status, the console's readers)", "Find what slows it down (page Live, Readers)"),
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
