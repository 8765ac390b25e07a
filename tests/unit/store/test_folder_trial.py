"""The trial of a folder."""

from pathlib import Path

import pytest

from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.store.folder_trial import tried
from engine.store.local_folder import LocalFolder


def test_a_folder_that_can_be_used_is_left_as_it_was(tmp_path: Path) -> None:
    """Nothing stays."""
    found = tried(LocalFolder(tmp_path))
    assert (found.fault, found.remedy) == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_store_that_lets_two_writers_win_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some do: the last one overwrites."""

    def careless(folder: LocalFolder, name: str, content: bytes) -> str:
        folder.write(name, content)
        return "new"

    monkeypatch.setattr(LocalFolder, "create", careless)
    found = tried(LocalFolder(tmp_path))
    assert "has no conditional writes: 4 of 4 writers created one file" in found.fault
    assert "If-None-Match" in found.remedy
    assert not list(tmp_path.iterdir())


def test_a_store_that_replaces_without_a_look_is_refused_for_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake does not need it."""
    assert tried(LocalFolder(tmp_path), replaces=True).fault == ""

    def careless(folder: LocalFolder, name: str, content: bytes, _tag: str) -> str:
        folder.write(name, content)
        return "new"

    monkeypatch.setattr(LocalFolder, "replace", careless)
    assert tried(LocalFolder(tmp_path)).fault == ""
    found = tried(LocalFolder(tmp_path), replaces=True)
    assert "has no conditional writes: 4 of 4 writers replaced one content" in found.fault
    assert "If-Match" in found.remedy
    assert not list(tmp_path.iterdir())


def test_a_store_that_lists_in_an_order_of_its_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those do that keep real folders: a list that begins behind a name would lack some."""
    below = LocalFolder.below
    monkeypatch.setattr(LocalFolder, "below", lambda folder: reversed(list(below(folder))))
    found = tried(LocalFolder(tmp_path))
    assert "does not list files in the order of their names" in found.fault
    assert "hierarchical namespace" in found.remedy
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("error", "remedy"), [(StoreAwayError, "endpoint"), (StoreAccessError, "permissions")])
def test_a_store_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError], remedy: str
) -> None:
    """With what to do."""

    def refused(_folder: LocalFolder, _name: str, _content: bytes) -> str:
        raise error("The store …: s3://lake")

    monkeypatch.setattr(LocalFolder, "create", refused)
    found = tried(LocalFolder(tmp_path))
    assert found.fault == "The store …: s3://lake"
    assert remedy in found.remedy
