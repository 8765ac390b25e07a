"""The lease: which runner has a pipeline whose state is in a bucket, and that it lives.

One file, which only conditional puts replace. Whoever holds the lease replaces it every few seconds (`renew`). Nobody
compares clocks: a runner that wants the lease watches it, and takes it when it was not renewed for as long as the
holder said (`valid_s`). Of two that take it, one succeeds. A holder that was stopped meanwhile finds another's
lease when it renews its own, and ends. Until then it can do no harm: it cannot commit (`ledger.store`), nor write to
the destination (`destination.fence`), once the other has taken its term.

Operators replace it as well, with one more in `orders` (`knock`). So the holder's next renewal is refused, and it looks
at what they have left: commands cost no requests as long as there are none.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engine.base import clock, processes
from engine.base.errors import PipelineHeldError, SpecError
from engine.base.json_records import record_from
from engine.pipeline import formats
from engine.pipeline.remote_state.names import LEASE, LEDGER, ledger_folders
from engine.store.folder import Folder

_LOOK_S = 3.0
_KNOCKS = 20


@dataclass(frozen=True)
class LeaseRecord:
    """The file's content."""

    holder: str
    """An identifier of the runner; unique."""
    pipeline: str
    """Its name: two specs with one state would be one pipeline."""
    host: str
    pid: int
    process: Mapping[str, Any]
    """The holder's `engine.base.processes.here`."""
    valid_s: float
    """How long others wait for the next renewal before they take the lease."""
    ended: bool = False
    """Whether the holder has given it back."""
    renewals: int = 0
    orders: int = 0
    """How often operators left something."""
    uploads: int = 0
    """How often the holder changed files of the state."""
    ledger: str = LEDGER
    """The folder of the ledger in the bucket: each restore makes another one the ledger's."""
    runner: Mapping[str, Any] = field(default_factory=dict)
    """The holder's `runner.json`; empty until it has one."""
    knock: str = ""
    """An identifier of the last operator's replacement; unique."""

    @property
    def text(self) -> bytes:
        """The file."""
        return json.dumps(formats.stamped("lease", asdict(self)), ensure_ascii=False).encode()

    def is_renewal_of(self, earlier: "LeaseRecord") -> bool:
        """Whether its holder, or another one, has replaced an earlier record. An operator's knock is none."""
        return (self.holder, self.renewals, self.ended) != (earlier.holder, earlier.renewals, earlier.ended)


@dataclass(frozen=True)
class SeenLease:
    """The lease as it was read."""

    record: LeaseRecord
    tag: str


def seen_lease(state: Folder, before: SeenLease | None = None) -> SeenLease | None:
    """The lease; None if there never was one. One request if it is as `before`, else two.

    Raises NewerFormatError, ValueError, errors of `Folder`.
    """
    entry = state.find(LEASE)
    if entry is None or (before is not None and before.tag == entry.tag):
        return before if entry is not None else None
    content = json.loads(state.read(LEASE))
    formats.check("lease", content, f"{state.url}/{LEASE}")
    record = record_from(LeaseRecord, content)
    if record is None:
        raise ValueError(f"{state.url}/{LEASE} is not a lease")
    return SeenLease(record, entry.tag)


def ledger_name(state: Folder, seen: SeenLease | None) -> str:
    """The folder of the ledger. Without a lease, which somebody may have deleted, the newest one. Raises OSError."""
    return max(ledger_folders(state), default=LEDGER) if seen is None else seen.record.ledger


class Lease:
    """The lease of one runner, which has taken it. Not thread-safe."""

    def __init__(self, state: Folder, record: LeaseRecord, tag: str) -> None:
        self._state = state
        self._record = record
        self._tag = tag

    @property
    def orders(self) -> int:
        """How often operators left something, as of the last renewal."""
        return self._record.orders

    @property
    def ledger(self) -> str:
        """The folder of the ledger."""
        return self._record.ledger

    def renew(self, runner: Mapping[str, Any], valid_s: float, uploads: int) -> None:
        """Say that the holder lives.

        Raises PipelineHeldError if another runner has the lease; errors of `Folder`.
        """
        self._replace(runner=runner, valid_s=valid_s, uploads=uploads)

    def give_back(self, runner: Mapping[str, Any], uploads: int) -> None:
        """End the lease: others need not wait. Raises as `renew` does."""
        self._replace(runner=runner, uploads=uploads, ended=True)

    def switch_ledger(self, folder: str, uploads: int) -> None:
        """Make another folder the ledger's. Only who holds the lease can. Raises as `renew` does."""
        self._replace(ledger=folder, uploads=uploads)

    def _replace(self, **changes: Any) -> None:
        while True:
            record = replace(self._record, **changes, renewals=self._record.renewals + 1)
            if tag := self._state.replace(LEASE, record.text, self._tag):
                self._record = record
                self._tag = tag
                return
            lease = seen_lease(self._state)
            if lease is None or lease.record.holder != self._record.holder:
                raise _lost(self._state, lease)
            self._record = lease.record
            self._tag = lease.tag


def take_lease(
    state: Folder, pipeline: str, host: str, pid: int, valid_s: float, waits: Callable[[str], None] | None = None
) -> Lease:
    """Take the lease. waits: called with the reason for a wait for the holder's end; None if it is not waited for.

    Without it, the call still waits for `valid_s` of a holder that may be dead. Raises PipelineHeldError if it lives,
    SpecError if the state is another pipeline's; errors of `Folder`.
    """
    own = LeaseRecord(uuid.uuid4().hex, pipeline, host, pid, processes.here(), valid_s)
    reported = ""
    while True:
        try:
            lease, holder = _attempt(state, own)
        except OSError as error:  # a runner that waits for days meets a store that is away
            if waits is None:
                raise
            lease, why = None, str(error)
        else:
            why = "" if holder is None else _who(holder)
            if holder is not None and waits is None:
                raise _held(state, holder)
        if lease is not None:
            return lease
        if why and waits is not None and why != reported:
            waits(why)
            reported = why
        clock.sleep(_LOOK_S if why else 0.0)


def _attempt(state: Folder, own: LeaseRecord) -> tuple[Lease | None, LeaseRecord | None]:
    """The lease if it could be taken, else who has it; neither if others took or changed it meanwhile."""
    seen = seen_lease(state)
    if seen is not None and seen.record.pipeline != own.pipeline:
        raise _another(state, seen.record.pipeline, own.pipeline)
    if seen is not None and not seen.record.ended and not _is_dead(seen.record):
        silent = _silent(state, seen)
        if silent is None:
            return None, seen.record
        seen = silent
    return _taken(state, seen, own), None


def _is_dead(record: LeaseRecord) -> bool:
    """Whether the holder was a process of this machine, and has ended. It is not waited for."""
    return processes.lives(record.pid, record.process) is False


def _silent(state: Folder, seen: SeenLease) -> SeenLease | None:
    """The lease if its holder does not renew it for as long as it is valid; None if it does, or it is gone."""
    deadline_s = clock.monotonic_s() + seen.record.valid_s
    while clock.monotonic_s() < deadline_s:
        clock.sleep(min(_LOOK_S, max(deadline_s - clock.monotonic_s(), 0.0)))
        now = seen_lease(state, seen)
        if now is None or now.record.is_renewal_of(seen.record):
            return None
        seen = now
    return seen


def _taken(state: Folder, seen: SeenLease | None, own: LeaseRecord) -> Lease | None:
    if seen is None:
        own = replace(own, ledger=ledger_name(state, None))
        if not state.create(LEASE, own.text):
            return None
        created = seen_lease(state)
        return Lease(state, own, created.tag) if created is not None and created.record.holder == own.holder else None
    record = replace(own, orders=seen.record.orders, uploads=seen.record.uploads, ledger=seen.record.ledger)
    tag = state.replace(LEASE, record.text, seen.tag)
    return Lease(state, record, tag) if tag else None


def knock(state: Folder) -> None:
    """Let the holder look at what an operator has left. Without a holder, the next runner looks anyway.

    Raises errors of `Folder`.
    """
    for _ in range(_KNOCKS):
        seen = seen_lease(state)
        if seen is None or seen.record.ended:
            return
        record = replace(seen.record, orders=seen.record.orders + 1, knock=uuid.uuid4().hex)
        if state.replace(LEASE, record.text, seen.tag):
            return


def _who(record: LeaseRecord) -> str:
    return f"the runner on {record.host} (pid {record.pid}) renews its lease"


def _held(state: Folder, record: LeaseRecord) -> PipelineHeldError:
    return PipelineHeldError(
        f"Another runner holds the pipeline in {state.url}: {_who(record)}.",
        detail="That runner continues undisturbed; this one did nothing.",
        hint="`status` shows it; `stop` ends it. To wait for its end and take over: tidemark run SPEC --standby",
    )


def _another(state: Folder, name: str, own: str) -> SpecError:
    return SpecError(
        f"The state in {state.url} is that of the pipeline {name}, not of {own}.",
        detail="Two pipelines cannot share one ledger; nothing was started.",
        hint="Give state a URL of its own in this spec.",
    )


def _lost(state: Folder, lease: SeenLease | None) -> PipelineHeldError:
    who = f"the runner on {lease.record.host} (pid {lease.record.pid})" if lease else "nobody: somebody deleted it"
    return PipelineHeldError(
        f"This runner has lost its lease of the pipeline in {state.url} to {who}.",
        detail="It had not renewed it in time, as when its host stands still or the store does not answer. "
        "Nothing of it was committed since the other runner began, which continues from its commits.",
        hint="For a runner that waits for its turn: tidemark run SPEC --standby",
    )
