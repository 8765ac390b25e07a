"""A network file system that loses an answer: the writer looks whose the name is."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.durable import UnknownOutcomeError, link, rename

Answer = Callable[..., None]


def lost(patch: pytest.MonkeyPatch, name: str, error: OSError, *, carried_out: bool = True) -> None:
    """The next call of a function of `os` is carried out, and answered with an error."""
    real: Any = getattr(os, name)

    def answer(*arguments: Any, **more: Any) -> None:
        patch.setattr(os, name, real)
        if carried_out:
            real(*arguments, **more)
        raise error

    patch.setattr(os, name, answer)


def test_a_link_whose_answer_was_lost_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By inode; by content if the file system does not keep inode numbers."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("ours")
    for error in (errno.EEXIST, errno.EIO, errno.ETIMEDOUT):
        lost(monkeypatch, "link", OSError(error, "lost"))
        assert link(source, target)
        target.unlink()
    target.write_text("ours")
    assert link(source, target)
    target.write_text("other")
    assert not link(source, target)


def test_a_link_of_which_nobody_knows_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may appear later. A full disk and the like are failures."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("ours")
    lost(monkeypatch, "link", OSError(errno.EIO, "lost"), carried_out=False)
    with pytest.raises(UnknownOutcomeError):
        link(source, target)
    lost(monkeypatch, "link", OSError(errno.ENOSPC, "full"), carried_out=False)
    with pytest.raises(OSError, match="full") as raised:
        link(source, target)
    assert not isinstance(raised.value, UnknownOutcomeError)


def test_a_rename_whose_answer_was_lost_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repeated request finds the old name gone."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("ours")
    lost(monkeypatch, "replace", FileNotFoundError(errno.ENOENT, "lost"))
    rename(source, target)
    assert target.read_text() == "ours"
    source.write_text("another")
    lost(monkeypatch, "replace", FileNotFoundError(errno.ENOENT, "gone"), carried_out=False)
    with pytest.raises(FileNotFoundError):
        rename(source, target)
