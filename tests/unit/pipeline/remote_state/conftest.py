"""Fixtures of the tests of a state in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.pipeline.remote_state.place import runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.store.local_folder import LocalFolder
from tests.unit.pipeline.remote_state.hosts import host, runner_sync_of


@pytest.fixture
def bucket(tmp_path: Path) -> LocalFolder:
    """The folder of a state."""
    return LocalFolder(tmp_path / "bucket")


@pytest.fixture
def sync(tmp_path: Path, bucket: LocalFolder) -> Iterator[RunnerSync]:
    """The sync of a runner on host a, whose steps the test takes."""
    found = runner_sync_of(runner_copy(host(tmp_path, "a", bucket)), bucket)
    yield found
    found.close()
