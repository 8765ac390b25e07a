"""A commit whose answer is lost is found as one's own.

Nothing that it names is deleted, and nothing is committed twice.
"""

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.base.durable import UnknownOutcomeError
from engine.destination.fence import Fence, Term
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake
from tests.unit.destination.support import OLD, PLAN, World

_LINK = os.link


class Answers:
    """Carries out links, and loses their answers."""

    def __init__(self, number: int = errno.EEXIST, *, carried_out: bool = True) -> None:
        self.lost, self._number, self._carried_out = 0, number, carried_out

    def link(self, source: Path, target: Path) -> None:
        """As `os.link`."""
        self.lost += 1
        if self._carried_out:
            _LINK(source, target)
        raise OSError(self._number, "the answer was lost")


def grown(lake: Lake) -> None:
    """A mirror and a change log of many small files."""
    for n in range(12):
        lake.copy({n * 10 + k: k for k in range(10)})
        lake.change([(n * 10, n)], timedelta(hours=2))


STEPS: dict[str, Callable[[Lake], Any]] = {
    "optimize": lambda lake: lake.maintenance.optimize(),
    "compact": lambda lake: lake.maintenance.compact(lake.now + timedelta(days=90)),
    "merge": lambda lake: lake.change([(5, 55), (500, 1)]),
    "append": lambda lake: lake.copy({1000: 1}),
    "seal": lambda lake: lake.pair.commit_term(),
}


@pytest.mark.parametrize("step", STEPS)
def test_no_file_of_a_commit_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: MirrorMode, step: str
) -> None:
    """The step is done once; the tables have all rows, also for another process."""
    grown(lake := Lake(tmp_path / "lake", mode))
    answers = Answers()
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", answers.link)
        STEPS[step](lake)
    assert answers.lost
    lake.check()
    lake.reopen()
    lake.check()
    assert not lake.pair.missing_files()


@pytest.mark.parametrize("step", STEPS)
def test_a_commit_that_cannot_be_looked_at_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: MirrorMode, step: str
) -> None:
    """The version's file is there, and the file system then refuses to say anything of it."""
    grown(lake := Lake(tmp_path / "lake", mode))
    before, stat = set(tmp_path.rglob("_delta_log/*.json")), os.stat

    def stale(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        found = stat(path, *arguments, **options)
        if "_delta_log/0" in str(path) and str(path).endswith(".json") and Path(str(path)) not in before:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stale)
        STEPS[step](lake)
    lake.check()
    lake.reopen()
    lake.check()
    assert not lake.pair.missing_files()


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("step", ["optimize", "compact"])
def test_an_outcome_that_nobody_knows_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, carried_out: bool
) -> None:
    """The file system did not say whether the version is there. If it is, the step is done."""
    grown(lake := Lake(tmp_path / "lake", "copy_on_write"))
    files = set(path_of(lake.pair.mirror.folder).glob("*.parquet")) | set(
        path_of(lake.pair.changes.folder).glob("*.parquet")
    )
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", Answers(errno.EIO, carried_out=carried_out).link)
        patch.setattr(Path, "samefile", _away)
        with nullcontext() if carried_out else pytest.raises(UnknownOutcomeError):
            STEPS[step](lake)
    written = set(path_of(lake.pair.mirror.folder).glob("*.parquet")) | set(
        path_of(lake.pair.changes.folder).glob("*.parquet")
    )
    assert written > files, "what was written may be committed"
    lake.reopen()
    lake.check()


def _away(_self: Path, _other: Path) -> bool:
    raise OSError(errno.EIO, "away")


def test_an_epoch_and_a_term_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other runner has them, and this one continues."""
    world = World(tmp_path)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    ledger, fence = Ledger(tmp_path / "ledger"), Fence(LocalFolder(tmp_path / "lake"), "L")
    monkeypatch.setattr(os, "link", Answers().link)
    state = ledger.commit(world.records[0])
    ledger.commit(following(state, "r", {}))
    ledger.take_term("r", 1)
    fence.take(Term(1, "r", "h", 1, ""))
    assert fence.check() == 1
    state = Ledger(tmp_path / "ledger").state or state
    assert (state.epoch, state.term) == (2, 1)
    assert not [path for path in (tmp_path / "ledger").iterdir() if path.name.startswith(".")]
