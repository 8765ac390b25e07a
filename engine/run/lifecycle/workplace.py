"""Where a run works: in the pipeline's directory, or in a copy of its state that is in a bucket."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.base.errors import PipelineHeldError
from engine.ledger.store import LedgerFiles
from engine.pipeline.directory import Directory, directory_of
from engine.pipeline.pipeline_lock import held
from engine.pipeline.remote_state.ledger_folder import LedgerFolder
from engine.pipeline.remote_state.operator_copy import reaching
from engine.pipeline.remote_state.place import note_state, remote_state, runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.run.lifecycle.spark_sessions import EarlySession
from engine.spark.kinds import is_local
from engine.spark.session import Session, open_session
from engine.spec.settings import Spec
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder


@dataclass(frozen=True)
class Workplace:
    """The place of one run, which holds the pipeline."""

    directory: Directory
    ledger: LedgerFiles
    """Where the ledger's files are."""
    open_session: Callable[[], Session]
    """Starts a Spark session, or raises."""
    sync: RunnerSync | None = None
    """Keeps the bucket of the state up to date; None without one."""
    state: Folder | None = None
    """The bucket's folder."""


@contextmanager
def workplace(spec: Spec, spec_file: Path, standby: Callable[[str], None] | None) -> Iterator[Workplace]:
    """Hold the pipeline, and get its state. standby: as of `run_pipeline`.

    Raises PipelineHeldError if another runner holds it, or has taken it meanwhile; TransientError if the bucket of its
    state cannot be reached.
    """
    directory = directory_of(spec_file, spec.name)
    note_state(directory, spec.state)
    state = remote_state(directory)
    with ExitStack() as stack:
        opens: Callable[[], Session] = partial(open_session, spec)
        if standby is not None and is_local(spec.spark.master):  # on a cluster, it would hold what the others need
            opens = stack.enter_context(closing(EarlySession(opens))).open
        copy = directory if state is None else runner_copy(directory)
        stack.enter_context(held(copy, standby=standby is not None, report=standby))
        if state is None:
            yield Workplace(directory, LocalFolder(directory.ledger), opens)
            return
        sync = stack.enter_context(_synced(copy, state, standby))
        ledger = LedgerFolder(
            state / "ledger", LocalFolder(copy.ledger), sync.ledger_tags, sync.require_lease, sync.committed
        )
        yield Workplace(copy, ledger, opens, sync, state)


@contextmanager
def _synced(copy: Directory, state: Folder, standby: Callable[[str], None] | None) -> Iterator[RunnerSync]:
    with reaching(state):
        sync = RunnerSync(copy, state, standby)
    try:
        yield sync
    except PipelineHeldError:
        raise
    except BaseException:
        if sync.held_error is not None:
            raise sync.held_error from None
        raise
    finally:
        sync.close()
    if sync.held_error is not None:
        raise sync.held_error
