"""Hosts of a pipeline whose state is in a bucket, and the steps of their runners."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.place import note_state
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.store.local_folder import LocalFolder


def host(tmp_path: Path, name: str, bucket: LocalFolder) -> Directory:
    """A pipeline's directory on a host."""
    directory = Directory(tmp_path / name / "shop")
    note_state(directory, bucket.url)
    return directory


def runner_sync_of(copy: Directory, bucket: LocalFolder) -> RunnerSync:
    """The sync of a runner; the test takes the steps of its mover."""
    return RunnerSync(copy, bucket, bucket, "shop", None)


@contextmanager
def calls(*names: str) -> Iterator[list[str]]:
    """The calls of these methods of folders."""
    made: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        method = getattr(LocalFolder, name)

        def call(*args: object) -> object:
            made.append(name)
            return method(*args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(LocalFolder, name, counted(name))
        yield made


def step(sync: RunnerSync) -> None:
    """What the threads do in some seconds."""
    sync._renew()
    sync._take_orders()
    sync._upload()
    sync._renew()
