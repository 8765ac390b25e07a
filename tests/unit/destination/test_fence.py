"""The terms of runners in a destination."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.base.errors import PipelineHeldError
from engine.destination.fence import Fence, FolderTerms, Term, ledgers
from engine.store.local_folder import LocalFolder


def test_the_ledgers_of_a_destination_are_its_folders_of_terms(tmp_path: Path) -> None:
    """Also one whose term files somebody has deleted: its tables are there. What else is below does not count."""
    root = LocalFolder(tmp_path)
    assert ledgers(root) == []
    Fence(root, "B").take(Term(1, "r", "h", 1, ""))
    (tmp_path / "_tidemark" / "A" / "reading").mkdir(parents=True)
    assert ledgers(root) == ["A", "B"]


def test_a_check_sees_a_later_term_only(tmp_path: Path) -> None:
    """Earlier ones are kept for a while, and are not listed at each check."""
    for number in range(1, 29):
        Fence(LocalFolder(tmp_path), "L").take(Term(number, f"r{number}", "h", 1, ""))
    fence = Fence(LocalFolder(tmp_path), "L")
    fence.take(Term(29, "r29", "h", 1, ""))
    assert fence.check() == 29
    newest = Fence(LocalFolder(tmp_path), "L").newest()
    assert newest is not None
    assert (newest.number, newest.run) == (29, "r29")
    assert len(list((tmp_path / "_tidemark" / "L").iterdir())) == 20


def test_commits_of_the_same_second_ask_once_for_the_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From many threads too. A second later they see the later runner, and a failed answer is not kept."""
    now_s, root, asked = [0.0], LocalFolder(tmp_path), list[int]()
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now_s[0])
    terms, check = FolderTerms(root), Fence.check
    terms.take("L", Term(1, "r", "h", 1, ""))

    def count(fence: Fence) -> int:
        asked.append(1)
        return check(fence)

    monkeypatch.setattr(Fence, "check", count)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: terms.check_for_commit(), range(100))) == {1}
    assert len(asked) == 1
    Fence(root, "L").take(Term(2, "other", "h", 2, ""))
    asked.clear()
    assert terms.check_for_commit() == 1
    assert not asked
    now_s[0] = 1.1
    for _ in range(2):
        with pytest.raises(PipelineHeldError):
            terms.check_for_commit()
    assert len(asked) == 2


def test_a_deletion_asks_for_the_term_each_time(tmp_path: Path) -> None:
    """It cannot be refused by a table's log."""
    terms = FolderTerms(LocalFolder(tmp_path))
    terms.take("L", Term(1, "r", "h", 1, ""))
    assert (terms.check_for_commit(), terms.check()) == (1, 1)
    Fence(LocalFolder(tmp_path), "L").take(Term(2, "other", "h", 2, ""))
    with pytest.raises(PipelineHeldError):
        terms.check()
