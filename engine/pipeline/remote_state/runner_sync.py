"""Keeps a runner's copy and the bucket equal, and its lease alive, from a thread of its own: a store may take long.

The copy is complete before the run begins. From then on the runner's files go up every few seconds while it commits,
every minute while it does not, and once more at the end. What operators have left comes down when a renewal of the
lease was refused for it.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.base import clock
from engine.base.errors import PipelineHeldError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.journal_tail import JOURNAL, JournalUpload
from engine.pipeline.remote_state.lease import take_lease
from engine.pipeline.remote_state.operator_copy import OPERATORS
from engine.pipeline.remote_state.state_copy import StateCopy, files_in
from engine.store.folder import Folder

BUSY_S, IDLE_S = 4.0, 8.0
"""Seconds between two renewals of the lease, while epochs are committed and while there are none."""
_GRACE_S = 6.0
"""How much longer than that others wait."""
_UPLOAD_BUSY_S, _UPLOAD_IDLE_S = 4.0, 60.0
_BUSY_FOR_S = 30.0
_TICK_S = 0.2
_FILES = ("alerts.json", "controls.json", "parked.json", "space.json", "pipeline.toml", "verify/", "maintenance/")
_ANSWERS = ("inbox/done/", "inbox/refused/", "inbox/withdrawn/", "inbox/claims/")


class RunnerSync:
    """The sync of one run. The state of the bucket is in `copy` when this returns.

    waits: as of `take_lease`. Raises PipelineHeldError; errors of `Folder`.
    """

    def __init__(self, copy: Directory, state: Folder, waits: Callable[[str], None] | None) -> None:
        self._root = copy.root
        self._directory = copy
        self._state = state
        self._lease = take_lease(state, socket.gethostname(), os.getpid(), BUSY_S + _GRACE_S, waits)
        self._renewed_s = clock.monotonic_s()
        self._renewing = threading.Lock()
        self._ordered = False
        """Whether operators have left something that was not taken yet."""
        self._files = StateCopy(self._root, state)
        entries = self._files.download(_is_no_command)
        self._journal = JournalUpload(self._root / JOURNAL, state, entries)
        self._uploads = 0
        self._committed_s = clock.monotonic_s()
        self._uploaded_s = clock.monotonic_s()
        self.errors: dict[str, Exception] = {}
        """What fails now, by step; the run reports it."""
        self.held_error: PipelineHeldError | None = None
        """Why the lease is another's."""
        self.ledger_tags = self._files.tags("ledger/")
        """The tags of the ledger's files as the copy has them."""
        self._lost: Callable[[], None] = lambda: None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="remote state", daemon=True)
        self._take_commands()
        self._renew(BUSY_S)

    def start(self, lost: Callable[[], None]) -> None:
        """Begin to keep both equal. lost: called once if another runner has taken the lease (`held_error`)."""
        self._lost = lost
        self._thread.start()

    def report(self) -> None:
        """Raises the error that a step meets now, for the helper that reports it."""
        for error in list(self.errors.values()):
            raise error

    def committed(self) -> None:
        """Note that an epoch was committed."""
        self._committed_s = clock.monotonic_s()

    def close(self) -> None:
        """Upload what is left, and give the lease back. A store that is away gets nothing of it."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.held_error is not None:
            return
        self._guard("upload", self._upload)
        with suppress(OSError, PipelineHeldError):
            self._lease.give_back(self._runner(), self._uploads)

    def _loop(self) -> None:
        while not self._closing.wait(_TICK_S) and self.held_error is None:
            now_s = clock.monotonic_s()
            busy = now_s - self._committed_s < _BUSY_FOR_S
            if now_s - self._uploaded_s >= (_UPLOAD_BUSY_S if busy else _UPLOAD_IDLE_S):
                self._guard("upload", self._upload)
                self._uploaded_s = clock.monotonic_s()
            every_s = BUSY_S if busy else IDLE_S
            if now_s - self._renewed_s >= every_s:
                self._guard("lease", partial(self._renew, every_s))

    def _guard(self, name: str, step: Callable[[], object]) -> None:
        try:
            step()
        except PipelineHeldError as error:
            self.held_error = error
            self._lost()
        except Exception as error:  # noqa: BLE001 - the run reports it, and the next try follows
            self.errors[name] = error
        else:
            self.errors.pop(name, None)

    def require_lease(self) -> None:
        """Renew the lease if it may have run out, as when this host stood still. Call it before each commit.

        Raises PipelineHeldError if another runner has the pipeline; errors of `Folder`.
        """
        if self.held_error is not None:
            raise self.held_error
        if clock.monotonic_s() - self._renewed_s > BUSY_S + _GRACE_S / 2:
            self._extend(BUSY_S)

    def _extend(self, every_s: float) -> None:
        with self._renewing:
            began_s = clock.monotonic_s()
            if self._lease.renew(self._runner(), every_s + _GRACE_S, self._uploads):
                self._ordered = True
            self._renewed_s = began_s

    def _renew(self, every_s: float) -> None:
        self._extend(every_s)
        if self._ordered:
            self._take_orders()
            self._ordered = False

    def _runner(self) -> dict[str, object]:
        with suppress(OSError, ValueError):
            found: dict[str, object] = json.loads(self._directory.runner.read_text(encoding="utf-8"))
            return found
        return {}

    def _upload(self) -> None:
        """The runner's files; answers before the commands that they answer are deleted."""
        changed = self._journal.upload()
        names = files_in(self._root, [*_FILES, *_ANSWERS, *OPERATORS, "inbox/"])
        changed += self._files.upload((name for name in names if self._uploads_or_has(name)), _deletes)
        self._uploads += changed

    def _uploads_or_has(self, name: str) -> bool:
        """A command, and what operators write, goes only down."""
        return not _is_operators(name) or self._files.has(name)

    def _take_orders(self) -> None:
        self._take_commands()
        self._files.download(lambda name: name.startswith(OPERATORS))
        self.committed()  # their answers are uploaded soon

    def _take_commands(self) -> None:
        """Take the commands that nobody has withdrawn: claim them in the bucket, as `pipeline.command_queue` has it."""
        inbox = self._state / "inbox"
        waiting = [entry.name for entry in inbox.entries() if entry.name.endswith(".json")]
        for name in waiting:
            if not self._files.has(f"inbox/{name}"):
                self._take_command(inbox, name)
        for name in files_in(self._root, ["inbox/"]):
            if name.removeprefix("inbox/") not in waiting:
                self._files.forget(name)  # a runner of another host has answered it

    def _take_command(self, inbox: Folder, name: str) -> None:
        claim = f"claims/{Path(name).stem}"
        try:
            content = inbox.read(name)
        except FileNotFoundError:
            return
        if not inbox.create(claim, content):
            return
        if inbox.find(name) is None:  # it was withdrawn, and the claim for that is gone already
            inbox.delete([claim])
            return
        self._files.take(f"inbox/{claim}", content)
        self._files.take(f"inbox/{name}", content)


def _is_no_command(name: str) -> bool:
    return name.rpartition("/")[0] != "inbox" and name != "pipeline.toml"


def _is_operators(name: str) -> bool:
    return name.rpartition("/")[0] == "inbox" or name.startswith(OPERATORS)


def _deletes(name: str) -> bool:
    """Whether a file that is gone from the copy is deleted in the bucket."""
    return not name.startswith((f"{JOURNAL}/", "ledger/")) and name != "pipeline.toml"
