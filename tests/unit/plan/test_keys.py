"""Chunk keys: which columns a table is split by, and which are refused."""

import pytest

from engine.base.errors import SpecError
from engine.decode.schema import Index, Table
from engine.plan.keys import SEVERAL_CODES, configured_key, own_key, why_unordered
from engine.plan.strategy import chunk_key
from engine.spec.settings import Snapshot
from tests.unit.plan.support import column, table, text

ID, V = column("id", "bigint"), column("v", "int", nullable=True)
ENUM = column("e", "enum", labels=("a", "b"))


@pytest.mark.parametrize(
    ("of", "names"),
    [
        (table(ID, V, key=["id"]), ("id",)),
        (table(ID, text(), key=["id", "s"]), ("id", "s")),
        (table(ID, ENUM, text(), key=["id", "e", "s"]), ("id",)),
        (table(ENUM, ID, key=["e", "id"]), None),
        (table(ID, V), None),
        (table(ID, V, key=["id"], indexes=[]), None),
        (table(ID, V, key=["id"], indexes=[Index("x", ("id", "v"))]), None),
        (table(ID, V, indexes=[Index("x", ("id",))]), None),
        (table(ID, text(charset="cp932"), key=["id", "s"]), ("id",)),
        (table(column("d", "datetime"), ID, key=["d", "id"]), ("d", "id")),
        (table(column("b", "varbinary"), column("t", "time"), key=["b", "t"]), ("b", "t")),
    ],
)
def test_the_identity_is_the_chunk_key_as_far_as_it_can_be_ordered(of: Table, names: tuple[str, ...] | None) -> None:
    """An ENUM, or a text in a charset with several codes per character, ends the key.

    As first column it prevents one.
    """
    key = own_key(of)
    assert (key and key.names) == names
    assert chunk_key(of, Snapshot()) == key


@pytest.mark.parametrize("charset", sorted(SEVERAL_CODES))
def test_texts_with_several_codes_are_not_ordered(charset: str) -> None:
    """Their code cannot be recovered from Unicode; in all other charsets it can."""
    assert why_unordered(text(charset=charset)) == f"in the character set {charset} one character has several codes"
    assert not why_unordered(text(charset="gbk"))


@pytest.mark.parametrize("kind", ["enum", "set", "json", "blob", "text", "geometry"])
def test_types_without_ranges_are_not_ordered(kind: str) -> None:
    """The reason names the type."""
    assert why_unordered(column("c", kind)) == f"no range of an index on {kind.upper()} can be read"


def test_dates_that_become_null_are_not_ordered() -> None:
    """Their rows would be in no chunk."""
    of = table(column("d", "date"), ID, key=["id"], indexes=[Index("d", ("d",))]).with_null_dates(null_dates=True)
    with pytest.raises(SpecError, match="which hides where their rows belong"):
        configured_key(of, "d")


def indexed(*indexes: tuple[str, ...], transactional: bool = True, key: tuple[str, ...] = ("id", "n")) -> Table:
    """A table with a key and these indexes, named after their columns."""
    columns = (ID, column("n", "int"), V, column("w", "int"), ENUM, text())
    listed = [Index("_".join(names), names) for names in (*([key] if key else []), *indexes)]
    return Table("shop", "orders", columns, key, indexes=tuple(listed), clustered=key if transactional else ())


@pytest.mark.parametrize(
    ("of", "name", "names", "index"),
    [
        (indexed(), "id", ("id", "n"), "id_n"),
        (indexed(("id", "w", "s", "v")), "id", ("id", "n"), "id_n"),
        (indexed(("v",)), "v", ("v", "id", "n"), "v"),
        (indexed(("v",), ("v", "w")), "v", ("v", "w", "id", "n"), "v_w"),
        (indexed(("w", "v")), "w", ("w",), "w_v"),
        (indexed(("w", "e")), "w", ("w",), "w_e"),
        (indexed(("w", "n")), "w", ("w", "n", "id"), "w_n"),
        (indexed(("s", "w"), transactional=False), "s", ("s", "w"), "s_w"),
        (indexed(("n",), key=()), "n", ("n",), "n"),
    ],
)
def test_a_configured_key_goes_on_over_its_index_and_the_identity(
    of: Table, name: str, names: tuple[str, ...], index: str
) -> None:
    """InnoDB appends the primary key to each index; a nullable or unordered column behind the first ends the key.

    The primary key's index is preferred, then the one with the most columns.
    """
    key = configured_key(of, name)
    assert (key.names, key.index) == (names, index)


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("x", "is set to 'x', which the table does not have", "Its columns: id, n, v, w, e, s."),
        ("e", "is set to 'e', which cannot split it: no range of an index on ENUM can be read",
        "Choose another column."),
        (
            "w",
            "is set to 'w', which no index begins with: every chunk would scan the whole table",
            "CREATE INDEX … ON `shop`.`orders` (`w`);",
        ),
        ("n", "is set to 'n', which no index begins with", "Choose a column with an index"),
    ],
)  # fmt: skip
def test_a_configured_key_that_does_not_do_is_refused(name: str, said: str, hint: str) -> None:
    """With the reason and a remedy; nothing is started."""
    with pytest.raises(SpecError) as raised:
        chunk_key(indexed(("v",)), Snapshot(chunk_key={"shop.orders": name}))
    assert raised.value.message.startswith("The chunk key of shop.orders ")
    assert said in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.detail == "Nothing was started."
