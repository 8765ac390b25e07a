"""Folder names of a destination (docs/destinations.md)."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SpecError
from engine.destination.delta.layout import changes_folder, make_readable, mirror_folder
from engine.spec.folder_names import folder_fault, folder_name
from engine.store.local_folder import LocalFolder
from tests.support.patience import PATIENCE_S


@given(st.text(min_size=1, max_size=20))
def test_a_folder_name_is_plain_and_says_the_name(name: str) -> None:
    """ASCII letters, digits, _, -, . and percent-encoding, which decodes to the name; so no two names collide."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    folder = folder_name(name)
    assert re.fullmatch(r"(?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+", folder)
    assert unquote(folder) == name
    assert set(folder) != {"."}


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("orders", "orders"),
        ("a b", "a%20b"),
        ("é", "%C3%A9"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        ("a.b-c_9", "a.b-c_9"),
        ("%", "%25"),
    ],
)
def test_examples(name: str, folder: str) -> None:
    """Bytes of UTF-8, with upper-case hexadecimal digits."""
    assert folder_name(name) == folder


@pytest.mark.parametrize(
    ("database", "table", "said"),
    [
        ("shop", "a/b", "slash"),
        ("..", "t", "consists of dots"),
        ("shop", "a%2Bb", "another name's folder"),
        ("s%20p", "t", "another name's folder"),
        ("shop", "表" * 28, "too long"),
        ("shop", "orders__Changes", "change log of another"),
    ],
)
def test_names_that_cannot_have_folders_of_their_own(database: str, table: str, said: str) -> None:
    """No two tables share a folder, and no name leads out of the destination."""
    assert said in folder_fault(database, table)


@given(st.lists(st.sampled_from(["a b", "a+b", "a%b", "é", "a%20", "per%cent", "a.b", "..a"]), min_size=2, unique=True))
def test_folders_and_links_of_allowed_names_are_all_different(names: list[str]) -> None:
    """No folder has the name of another table's link."""
    allowed = [name for name in names if not folder_fault("shop", name)]
    folders = {folder_name(name): name for name in allowed}
    assert all(folders.get(name, name) == name for name in allowed)


def test_a_folder_is_made_with_its_links(tmp_path: Path) -> None:
    """An encoded folder has its plain name as a link; another file of that name is refused."""
    folder = mirror_folder(LocalFolder(tmp_path), "my shop", "größe")
    for _ in range(2):
        make_readable(folder)
    assert (tmp_path / "my shop" / "größe").resolve() == Path(folder.url).resolve()
    other = mirror_folder(LocalFolder(tmp_path), "plain", "a b")
    (tmp_path / "plain" / "a b").mkdir(parents=True)
    with pytest.raises(SpecError, match="something else has that name"):
        make_readable(other)


def test_a_mirror_and_its_log_lie_side_by_side() -> None:
    """`<path>/<database>/<table>` and `<table>__changes`."""
    assert mirror_folder(LocalFolder(Path("lake")), "my shop", "orders").url == "lake/my%20shop/orders"
    assert changes_folder(LocalFolder(Path("lake")), "my shop", "orders").url == "lake/my%20shop/orders__changes"


def test_tables_of_a_database_are_made_readable_at_the_same_time(tmp_path: Path) -> None:
    """Whichever makes the link of the database, the others find it."""
    for number in range(20):
        root, barrier = LocalFolder(tmp_path / str(number)), threading.Barrier(8, timeout=PATIENCE_S)

        def make(table: int, root: LocalFolder = root, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            make_readable(mirror_folder(root, "a b", f"t {table}"))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(make, range(8)))
        assert sorted(path.name for path in (root.path / "a b").iterdir() if path.is_symlink()) == [
            f"t {table}" for table in range(8)
        ]
