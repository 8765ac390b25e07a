"""Where a run works: in the pipeline's directory, or in a copy of its state that is in a bucket."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from engine.base.errors import SpecError
from engine.ledger.store import LedgerFiles
from engine.pipeline.directory import Directory, directory_of
from engine.pipeline.pipeline_lock import held, standing_by
from engine.pipeline.remote_state.ledger_folder import LedgerFolder
from engine.pipeline.remote_state.names import SPEC
from engine.pipeline.remote_state.operator_copy import reaching
from engine.pipeline.remote_state.place import note_state, remote_state, runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync, kept
from engine.run.lifecycle.spark_sessions import EarlySession
from engine.spark.configuration import is_local
from engine.spark.driver_process import EarlyDriver
from engine.spark.session import Session, open_session
from engine.spec.settings import Spec, parse
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

EarlyJvm: TypeAlias = EarlyDriver | None
"""The JVM of the first session, if it was started early: it can be killed while the session opens."""


@dataclass(frozen=True)
class Workplace:
    """The place of one run, which holds the pipeline."""

    spec: Spec
    pipeline: Directory
    """The pipeline's directory on this host."""
    directory: Directory
    """Where the run works: the same, or the runner's copy."""
    ledger: LedgerFiles
    """Where the ledger's files are."""
    open_session: Callable[[], Session]
    """Starts a Spark session, or raises."""
    driver: EarlyJvm = None
    sync: RunnerSync | None = None
    """Keeps the bucket of the state up to date; None without one."""
    state: Folder | None = None
    """The bucket's folder."""


@contextmanager
def workplace(
    spec: Spec, spec_file: Path, standby: Callable[[str], None] | None, driver: EarlyJvm = None
) -> Iterator[Workplace]:
    """Hold the pipeline, and get its state. standby, driver: as of `run_pipeline`.

    Raises PipelineHeldError if another runner holds it, or has taken it meanwhile; TransientError if the bucket of its
    state cannot be reached; SpecError.
    """
    directory = directory_of(spec_file, spec.name)
    note_state(directory, spec.state)
    state, quick = remote_state(directory), remote_state(directory, quick=True)
    with ExitStack() as stack:
        opens: Callable[[], Session] = partial(open_session, spec, driver)
        waiting = stack.enter_context(ExitStack())
        if standby is not None:
            waiting.enter_context(standing_by(directory))
            if is_local(spec.spark.master):  # on a cluster, it would hold what the others need
                opens = stack.enter_context(closing(EarlySession(opens))).open
        copy = directory if state is None else runner_copy(directory)
        before = _spec_in(state) if standby is not None else None
        stack.enter_context(held(copy, standby=standby is not None, report=standby))
        if state is None or quick is None:
            waiting.close()
            link_spec(spec_file, directory)
            yield Workplace(spec, directory, directory, LocalFolder(directory.ledger), opens, driver)
            return
        with reaching(state):
            sync = RunnerSync(copy, state, quick, spec.name, standby)
        stack.enter_context(kept(sync))
        waiting.close()
        with reaching(state):
            spec = _spec_of_takeover(spec, spec_file, state, copy, before, waited=standby is not None)
        ledger = LedgerFolder(sync.ledger, LocalFolder(copy.ledger), sync.ledger_tags, sync.commit)
        yield Workplace(spec, directory, copy, ledger, opens, driver, sync, state)


def _spec_in(state: Folder | None) -> bytes | None:
    """The spec of the newest run, in the bucket; None if there is none, or it cannot be read."""
    with suppress(OSError):
        return None if state is None else state.read(SPEC)
    return None


def _spec_of_takeover(
    spec: Spec, spec_file: Path, state: Folder, copy: Directory, before: bytes | None, *, waited: bool
) -> Spec:
    """The spec to run by: the bucket's, if it was changed while a standby runner waited, else the own one.

    It is in bucket and copy afterwards. before: the bucket's when the wait began.
    """
    own, newest = spec_file.read_bytes(), _spec_in(state)
    if waited and newest is not None and newest != before:
        own = newest
        spec = parse(own.decode(), spec_file)
    if own != newest:
        state.write(SPEC, own)
    copy.spec.unlink(missing_ok=True)
    copy.spec.write_bytes(own)
    return spec


def link_spec(spec_file: Path, directory: Directory) -> None:
    """Link the spec into the pipeline's directory, so that there is one file to edit."""
    if spec_file.absolute() == directory.spec:
        return
    if directory.spec.exists() and not directory.spec.is_symlink():
        raise SpecError(
            f"The folder {directory.root} belongs to a pipeline with a spec of its own.",
            detail="Two specs with one name would share one ledger; nothing was started.",
            hint=f"Run {directory.spec}, or give this pipeline another name.",
        )
    with suppress(FileNotFoundError):
        directory.spec.unlink()
    directory.spec.symlink_to(os.path.relpath(spec_file.resolve(), directory.root.resolve()))
