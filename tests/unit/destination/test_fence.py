"""The terms of runners in a destination."""

from pathlib import Path

from engine.destination.fence import Fence, Term, ledgers
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
