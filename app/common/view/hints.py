"""Advice in the console's own terms: where the engine names a command, the console names its page and form."""

import re
from functools import partial

from engine.base.errors import COMES_BACK

_NAME = r"(?:'[^']*'|[^\s,;)]*[^\s,;).])"
"""A table in a command, without the full stop of the sentence; in quotes if a shell needs them."""
_END = r"(?=\.?(?:[\s,;)]|$))(?! --)"
"""After the last table of a command."""
_FORMS = (
    (r"tidemark redump SPEC --all", "redump everything on the page Redump"),
    (r"tidemark redump SPEC --table …", "redump it on the page Redump"),
    (r"tidemark redump SPEC((?: --table {NAME})+)", "redump{tables} on the page Redump"),
    (
        r"tidemark verify SPEC --repair",
        "choose a table on the page Verify, then Verify this table, then Repair if rows differ",
    ),
    (
        r"tidemark verify SPEC((?: --table {NAME})+) --repair",
        "choose{tables} on the page Verify, then Verify this table, then Repair if rows differ",
    ),
    (r"tidemark add-table SPEC --table …", "add them on the page Live, Tables"),
    (r"tidemark add-table SPEC((?: --table {NAME})+)", "add{tables} on the page Live, Tables"),
    (r"tidemark remove-table SPEC --table …", "remove it on the page Live, Tables"),
    (r"tidemark remove-table SPEC((?: --table {NAME})+) --drop", "remove and drop{tables} on the page Live, Tables"),
    (r"tidemark remove-table SPEC((?: --table {NAME})+)", "remove{tables} on the page Live, Tables"),
    (r"`?tidemark stop SPEC`?", "the button Stop"),
    (r"`?tidemark bundle SPEC`?", "the page Diagnostics"),
    (r"`tidemark status SPEC` shows", "the page Live shows"),
    (r"status, the console's readers", "the readers on the page Live"),
)
"""Commands that have a form, and where it is."""
_BUTTONS = (
    (r"tidemark redump SPEC --table {NAME}{END}", "the button Resnapshot below"),
    (r"tidemark remove-table SPEC --table {NAME}{END}", "the button Remove below"),
)
"""Commands of one table that have a button, where the text stands above it."""


def for_console(hint: str, *, above_buttons: bool = False) -> str:
    """The advice with forms instead of commands. Commands without a form stay.

    above_buttons: the buttons of the table stand below the text (`table_acts`).
    """
    forms = (*(_BUTTONS if above_buttons else ()), *_FORMS)
    for command, form in forms:
        pattern = command.replace("{NAME}", _NAME).replace("{END}", _END)
        hint = re.sub(pattern, partial(_form, form), hint)
    return hint


def _form(form: str, match: re.Match[str]) -> str:
    """The form of a command, which may end the sentence."""
    names = match[1].split(" --table ")[1:] if match.re.groups else []
    text = form.format(tables=f" {', '.join(names)}" if names else "")
    return text if match.end() < len(match.string) else f"{text}."


def comes_back(hint: str) -> bool:
    """Whether the advice is about a table that its source does not have now: it cannot be resnapshotted."""
    return COMES_BACK in hint


def names_full_resnapshot(hint: str) -> bool:
    """Whether the advice is to resnapshot all tables."""
    return "tidemark redump SPEC --all" in hint


_LABELS = {
    "source.host": "Host",
    "source.port": "Port",
    "source.user": "User",
    "source.tls": "Encryption",
    "source.password_env": "Name of the environment variable",
    "source.password_file": "Path of the file",
}
"""Settings that have a field in the first step of a new pipeline, and its label."""


def for_wizard(hint: str, *, sent: bool = True) -> str:
    """The advice with the labels of fields instead of settings. sent: whether the login sends a password."""
    if not sent and "source.password_env" in hint:
        return (
            "No password was sent. Name the environment variable or the file that has it, "
            "or check that User needs none."
        )
    return re.sub(r"source\.\w+", lambda match: _LABELS.get(match[0], match[0]), hint)


def others_continue(*, works: bool) -> str:
    """What happens to the tables besides one that stopped; empty while the runner does not work."""
    return "The other tables continue." if works else ""
