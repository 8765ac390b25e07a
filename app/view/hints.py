"""Advice in the console's own terms: where the engine names a command, the console names its page and form."""

import re

_FORMS = (
    (r"tidemark redump SPEC --all", "page Redump, Everything"),
    (r"tidemark redump SPEC --table …", "page Redump, Table"),
    (r"tidemark redump SPEC((?: --table [^\s,;)]+)+)", "page Redump, Table:{tables}"),
    (r"tidemark add-table SPEC((?: --table [^\s,;)]+)+)", "page Live, Tables, Add tables:{tables}"),
    (r"tidemark remove-table SPEC((?: --table [^\s,;)]+)+)", "page Live, Tables, Remove tables:{tables}"),
    (r"`?tidemark stop SPEC`?", "the button Stop"),
    (r"`?tidemark bundle SPEC`?", "the page Diagnostics"),
    (r"`tidemark status SPEC` shows", "the page Live shows"),
)
"""Commands that have a form, and where it is."""


def for_console(hint: str) -> str:
    """The advice with forms instead of commands. Commands without a form stay."""
    for command, form in _FORMS:
        hint = re.sub(command, lambda found, form=form: form.format(tables=_tables(found)), hint)  # type: ignore[misc]
    return hint


def _tables(found: re.Match[str]) -> str:
    names = found[1].split(" --table ")[1:] if found.re.groups else []
    return f" {', '.join(names)}" if names else ""
