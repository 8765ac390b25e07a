"""The thread that publishes other formats: soon after commits, again after failures, never for a fenced runner."""

from pathlib import Path

import pytest

from engine.base.errors import PipelineHeldError
from engine.destination.delta.formats import format_publisher
from engine.destination.delta.formats.format_publisher import FormatPublisher
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from tests.support.delta import path_of
from tests.support.iceberg import opened, snapshots
from tests.unit.destination.lake import Lake
from tests.unit.destination.support import wait_for


def followed(lake: Lake, publisher: FormatPublisher[IcebergCopy]) -> IcebergCopy:
    """The copy of a mirror."""
    return publisher.copy_of("d.t", IcebergCopy(lake.pair.mirror.folder, "l", 3, ("id",)))


def test_commits_are_published_by_the_end(tmp_path: Path) -> None:
    """`finish` waits for all that was noted; a table has one copy."""
    lake, publisher = Lake(tmp_path, "merge_on_read"), FormatPublisher[IcebergCopy](lambda: 1)
    copy = followed(lake, publisher)
    assert followed(lake, publisher) is copy
    for n in range(5):
        lake.copy({n: n})
        publisher.note(copy)
    publisher.finish()
    (newest,) = [version for version, _ in snapshots(opened(copy.folder))][-1:]
    assert newest == lake.pair.mirror.lake.log.version
    (state,) = publisher.states()
    assert (state.table, state.version, state.behind_s, state.failure) == ("d.t", newest, 0.0, "")
    assert publisher.is_published(copy)


def test_a_failure_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`finish` does not wait for what fails."""
    monkeypatch.setattr(format_publisher, "_RETRY_S", 0.05)
    lake, publisher = Lake(tmp_path, "merge_on_read"), FormatPublisher[IcebergCopy](lambda: 1)
    copy = followed(lake, publisher)
    path_of(copy.folder).write_text("in the way")
    publisher.note(copy)
    publisher.finish()
    (state,) = publisher.states()
    assert state.failure
    assert not publisher.is_published(copy)
    path_of(copy.folder).unlink()
    assert wait_for(lambda: publisher.is_published(copy))
    (state,) = publisher.states()
    assert (state.failure, state.version) == ("", 0)


def test_a_fenced_runner_publishes_nothing_more(tmp_path: Path) -> None:
    """Nor does its end wait."""

    def guard() -> int:
        raise PipelineHeldError("Another runner holds the pipeline.")

    lake, publisher = Lake(tmp_path, "merge_on_read"), FormatPublisher[IcebergCopy](guard)
    copy = followed(lake, publisher)
    publisher.note(copy)
    publisher.finish()
    assert not path_of(copy.folder).exists()


def test_a_dropped_table_is_followed_no_more(tmp_path: Path) -> None:
    """A late note is ignored."""
    lake, publisher = Lake(tmp_path, "merge_on_read"), FormatPublisher[IcebergCopy](lambda: 1)
    copy = followed(lake, publisher)
    publisher.note(copy)
    publisher.finish()
    copy.drop()
    publisher.forget(copy)
    publisher.note(copy)
    assert publisher.states() == []
    assert not path_of(copy.folder).exists()
