"""Keeps a runner's copy and the bucket equal, and its lease alive, from two threads: a store may take long.

One thread does nothing but renew the lease, from the moment when it is taken, with requests that give up soon. The
other one moves files. The copy is complete before the run begins. From then on the runner's files go up every few
seconds while it commits, every minute while it does not, at once when it has answered a command, and once more at the
end. What operators have left comes down when the lease says so.

A runner that may have lost its lease unawares, because it or its host stood still, looks before it writes anything.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from engine.base import clock, processes
from engine.base.errors import PipelineHeldError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.command_download import take_commands
from engine.pipeline.remote_state.journal_tail import JournalUpload
from engine.pipeline.remote_state.lease import take_lease
from engine.pipeline.remote_state.names import ANSWERS, INBOX, JOURNAL, OPERATORS, is_copied, is_runners
from engine.pipeline.remote_state.state_copy import StateCopy, local_files
from engine.store.folder import Folder

BUSY_S, IDLE_S = 4.0, 8.0
"""Seconds between two renewals of the lease, while epochs are committed and while there are none."""
_GRACE_S = 6.0
"""How much longer than that others wait."""
_UPLOAD_BUSY_S, _UPLOAD_IDLE_S = 4.0, 60.0
_BUSY_FOR_S = 30.0
_TICK_S = 0.2
_RETRY_S = 1.0


class RunnerSync:
    """The sync of one run. When this returns, the copy has what the bucket has, and the lease is renewed.

    quick: the same folder as `state`, with requests that give up soon. waits: as of `take_lease`. Raises
    PipelineHeldError, SpecError; errors of `Folder`.
    """

    def __init__(
        self, copy: Directory, state: Folder, quick: Folder, pipeline: str, waits: Callable[[str], None] | None
    ) -> None:
        self._copy = copy
        self._state = state
        self.held_error: PipelineHeldError | None = None
        """Why the lease is another's."""
        self.errors: dict[str, Exception] = {}
        """What fails now, by step; the run reports it."""
        self._on_loss: Callable[[], None] = lambda: None
        self._gives_up: Callable[[], bool] = lambda: False
        self._is_complete = False
        """Whether the copy is what the bucket has."""
        self._uploads = 0
        self._committed_s = clock.monotonic_s()
        self._uploaded_s = clock.monotonic_s()
        self._answered_ns = 0
        self._renewing = threading.Lock()
        self._moving = threading.Event()
        """Set when files are moved no more, but for the last time."""
        self._closing = threading.Event()
        self._renewer = threading.Thread(target=self._renew_on, name="lease", daemon=True)
        self._mover = threading.Thread(target=self._move_on, name="remote state", daemon=True)
        self._lease = take_lease(quick, pipeline, socket.gethostname(), os.getpid(), BUSY_S + _GRACE_S, waits)
        self._renewed_s = clock.monotonic_s()
        self.ledger = state / self._lease.ledger
        """The ledger's folder in the bucket."""
        self._renewer.start()
        try:
            self._taken_orders = self._lease.orders
            self._files = StateCopy(copy.root, state, self._lease.ledger)
            entries = self._files.download(lambda name: is_copied(name) and not _is_command(name))
            self._journal = JournalUpload(copy.root / JOURNAL, state, entries)
            self.ledger_tags = self._files.tags("ledger/")
            """The tags of the ledger's files as the copy has them."""
            take_commands(self._state / INBOX, self._copy.root, self._files)
            self._is_complete = True
        except BaseException:
            self.close()
            raise

    def start(self, on_loss: Callable[[], None], gives_up: Callable[[], bool]) -> None:
        """Begin to keep both equal. on_loss: called once if another runner has taken the lease (`held_error`).

        gives_up: whether the run ends, and no commit waits for the store any more.
        """
        self._on_loss = on_loss
        self._gives_up = gives_up
        self._mover.start()
        if self.held_error is not None:
            on_loss()

    def report(self) -> None:
        """Raises the error that a step meets now, for the helper that reports it."""
        for error in list(self.errors.values()):
            raise error

    def lose(self, error: PipelineHeldError) -> None:
        """Note that another runner has the pipeline: nothing is written any more."""
        if self.held_error is None:
            self.held_error = error
            self._on_loss()

    def commit(self, create: Callable[[], str]) -> str:
        """The result of a creation, repeated while the store is away, until the run ends. It decides by its content.

        The lease is renewed before it if it may have run out. Raises PipelineHeldError if another runner has the
        pipeline; errors of `Folder` once the run ends.
        """
        while True:
            try:
                self._require_lease()
                created = create()
            except (StoreAwayError, StoreAccessError) as error:
                self.errors["commit"] = error
                if self._gives_up():
                    raise
                clock.sleep(_RETRY_S)
            else:
                self.errors.pop("commit", None)
                self._committed_s = clock.monotonic_s()
                return created

    def switch_ledger(self, folder: str) -> None:
        """Upload what is left, then make another folder of the bucket the ledger's; the copy keeps the old one.

        Raises PipelineHeldError if another runner has the pipeline; errors of `Folder`: it may be done then.
        """
        self._upload()
        with self._renewing:
            self._lease.switch_ledger(folder, self._uploads)
            self.ledger = self._state / folder

    def close(self) -> None:
        """Upload what is left, and give the lease back. A store that is away gets nothing of it."""
        self._moving.set()
        if self._mover.is_alive():
            self._mover.join()
        if self.held_error is None and self._is_complete:
            self._attempt("upload", self._upload)
            if "upload" in self.errors:
                print(  # noqa: T201
                    f"The last events and alerts are not in {self._state.url}: {self.errors['upload']}", file=sys.stderr
                )
        self._closing.set()
        self._renewer.join()
        if self.held_error is None:
            with suppress(OSError, PipelineHeldError):
                self._lease.give_back(self._runner(), self._uploads)

    def _renew_on(self) -> None:
        while not self._closing.wait(_TICK_S) and self.held_error is None:
            if clock.monotonic_s() - self._renewed_s >= self._every_s:
                self._attempt("lease", self._renew)

    def _move_on(self) -> None:
        while not self._moving.wait(_TICK_S) and self.held_error is None:
            if self._lease.orders != self._taken_orders:
                self._attempt("orders", self._take_orders)
            every_s = _UPLOAD_BUSY_S if self._is_busy else _UPLOAD_IDLE_S
            answered = self._newest_answer_ns() > self._answered_ns
            if answered or clock.monotonic_s() - self._uploaded_s >= every_s:
                self._attempt("upload", self._upload)
                self._uploaded_s = clock.monotonic_s()

    @property
    def _is_busy(self) -> bool:
        return clock.monotonic_s() - self._committed_s < _BUSY_FOR_S

    @property
    def _every_s(self) -> float:
        return BUSY_S if self._is_busy else IDLE_S

    def _attempt(self, name: str, step: Callable[[], object]) -> None:
        try:
            step()
        except PipelineHeldError as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 - the run reports it, and the next try follows
            self.errors[name] = error
            self._closing.wait(_RETRY_S)
        else:
            self.errors.pop(name, None)

    def _renew(self) -> None:
        with self._renewing:
            began_s = clock.monotonic_s()
            self._lease.renew(self._runner(), self._every_s + _GRACE_S, self._uploads)
            self._renewed_s = began_s

    def _require_lease(self) -> None:
        """Renew the lease if others may have taken it since. Raises PipelineHeldError; errors of `Folder`."""
        if self.held_error is None and clock.monotonic_s() - self._renewed_s > BUSY_S + _GRACE_S / 2:
            try:
                self._renew()
            except PipelineHeldError as error:
                self.lose(error)
        if self.held_error is not None:
            raise self.held_error

    def _runner(self) -> dict[str, object]:
        """The `runner.json` of this run; empty before it has one."""
        with suppress(OSError, ValueError, AttributeError):
            record: dict[str, object] = json.loads(self._copy.runner.read_text(encoding="utf-8"))
            ticks = (record.get("process") or {}).get("ticks")  # type: ignore[attr-defined]
            if record.get("pid") == os.getpid() and ticks == processes.here()["ticks"]:
                return record
        return {}

    def _upload(self) -> None:
        """The runner's files; answers before the commands that they answer are deleted."""
        self._require_lease()
        answered_ns = self._newest_answer_ns()
        changed = self._journal.upload()
        names = [name for name in local_files(self._copy.root) if is_runners(name) or self._is_taken_command(name)]
        changed += self._files.upload(names, lambda name: is_runners(name) or _is_command(name))
        self._uploads += changed
        self._answered_ns = answered_ns

    def _is_taken_command(self, name: str) -> bool:
        return _is_command(name) and self._files.has(name)

    def _newest_answer_ns(self) -> int:
        """When an answer was put away last."""
        newest_ns = 0
        for name in ANSWERS:
            with suppress(FileNotFoundError):
                newest_ns = max(newest_ns, (self._copy.root / name).stat().st_mtime_ns)
        return newest_ns

    def _take_orders(self) -> None:
        orders = self._lease.orders
        take_commands(self._state / INBOX, self._copy.root, self._files)
        self._files.download(lambda name: name.startswith(OPERATORS) and is_copied(name))
        self._taken_orders = orders
        self._committed_s = clock.monotonic_s()  # their answers are uploaded soon


@contextmanager
def kept(sync: RunnerSync) -> Iterator[None]:
    """Close the sync at the end. Raises PipelineHeldError if another runner has the pipeline by then."""
    try:
        yield
    except PipelineHeldError as error:
        sync.lose(error)
        raise
    except BaseException:
        if sync.held_error is not None:
            raise sync.held_error from None
        raise
    finally:
        sync.close()
    if sync.held_error is not None:
        raise sync.held_error


def _is_command(name: str) -> bool:
    return name.rpartition("/")[0] == INBOX
