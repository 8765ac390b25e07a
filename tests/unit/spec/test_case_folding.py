"""A spec follows the server's rule for names in every setting that names tables."""

from pathlib import Path

import pytest

from engine.base.errors import SpecError
from engine.spec.case_folding import spec_on
from engine.spec.globs import EXACT, NameRule
from engine.spec.settings import Spec, parse

TEXT = """
name = "shop"
[source]
host = "h"
user = "u"
tables = ["Shop.*", "!SHOP.Audit_*"]
[snapshot]
priority = ["Shop.Orders"]
chunk_key = { "Shop.Orders" = "day" }
tables = { "SHOP.orders" = { chunk_rows = 5 }, "shop.*" = { chunk_rows = 9 } }
[sink]
path = "lake"
tables = { "SHOP.*" = { mirror = "merge_on_read" } }
[tables."Shop.Orders"]
exclude = ["secret"]
"""


def read(text: str = TEXT) -> Spec:
    """A spec that gives names in any case."""
    return parse(text, Path("pipeline.toml"))


@pytest.mark.parametrize(("setting", "name"), [(1, ("shop", "orders")), (2, ("SHop", "ORders"))])
def test_every_setting_that_names_tables_follows_the_rule(setting: int, name: tuple[str, str]) -> None:
    """Column lists and masks among them: a column that was to be left out is left out."""
    plain, spec = read(), spec_on(read(), NameRule(setting))
    assert spec.projection_rules(*name).exclude == ("secret",)
    assert (spec.snapshot.rank(*name), spec.snapshot.rules(*name).key) == (0, "day")
    assert spec.snapshot.rules(*name).chunk_rows == 9
    assert spec.sink.merging(*name, 0) == "merge_on_read"
    assert plain.projection_rules(*name).exclude is None
    assert spec_on(plain, EXACT) is plain


def test_two_sections_for_the_same_table_are_refused() -> None:
    """One of them would be lost, and with it the mask of a column."""
    text = TEXT + '[tables."shop.ORDERS"]\nmask = ["mail"]\n'
    with pytest.raises(
        SpecError, match=r"tables has two sections for the same tables: 'Shop.Orders' and 'shop.ORDERS'"
    ):
        spec_on(read(text), NameRule(1))
