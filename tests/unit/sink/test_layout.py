"""Folder names of a destination (DESIGN 4)."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sink.layout import changes_folder, folder_name, mirror_folder


@given(st.text(min_size=1, max_size=20))
def test_a_folder_name_is_plain_and_says_the_name(name: str) -> None:
    """ASCII letters, digits, _, -, . and percent signs; percent-decoding gives the name back, so no two are the same."""
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
    """UTF-8 bytes, upper-case digits."""
    assert folder_name(name) == folder


def test_a_mirror_and_its_log_lie_side_by_side() -> None:
    """`<path>/<database>/<table>` and `<table>__changes`."""
    assert mirror_folder(Path("lake"), "my shop", "orders") == Path("lake/my%20shop/orders")
    assert changes_folder(Path("lake"), "my shop", "orders") == Path("lake/my%20shop/orders__changes")
