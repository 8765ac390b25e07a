"""Commands in hints can be pasted, whatever the names of tables are."""

import shlex
import tomllib

import pytest

from engine.base.wording import shell_word, toml_text
from engine.journal.alert_kinds import ALERTS, remedy

NAMES = ["shop.orders", 'app.odd na.me "q" %41\'', "d.tä", "d.$HOME", "d.`x`", "d.a{table}b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_word_of_a_shell_and_one_text_of_toml(name: str) -> None:
    """A simple one stays as it is."""
    assert shlex.split(f"tidemark redump SPEC --table {shell_word(name)}")[-1] == name
    assert tomllib.loads(f"it = {toml_text(name)}")["it"] == name
    assert shell_word("shop.orders") == "shop.orders"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [kind for kind, text in ALERTS.items() if "--table {table}" in text.do])
def test_a_remedy_can_be_pasted(kind: str, name: str) -> None:
    """Its commands name the table as one word."""
    assert f"--table {shlex.quote(name)}" in remedy(kind, name)
