"""Fences a destination: the terms of the runners that write there, one file per term, in `<path>/_tidemark/<ledger>/`.

A lock (`pipeline.pipeline_lock`) keeps a second runner out only if both see the same lock. It fails when the lock file
is deleted, on a network file system without locks, and when the pipeline's folder is copied with the same `sink.path`.
So a runner takes a *term* before it writes or deletes anything:

    in the ledger        a separate epoch; a runner with an earlier term cannot commit any more (`ledger.store`)
    in the destination   a file `term-00000007.json`, which only one runner can create; and the term as a transaction
                         identifier in every Delta commit (`destination.delta.destination`)

A runner checks the term before each deletion and, within the second before, each commit, and stops when there is a
later one (exit code 5). A runner that is delayed after its check writes nothing either. The new runner fences every
table with a commit of its own term, which takes the version that the old one expects, and then compares again. Only a
runner that ended in order leaves nothing to fence.

A ledger that was restored from an older copy, or whose original continued, does not know the newest term. It is refused
before anything is written (`compare`).
"""

import json
import re
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.base import clock
from engine.base.errors import MismatchError, PipelineHeldError
from engine.store.folder import Folder

_TERM = re.compile(r"^term-(\d{8,})\.json$")
_KEPT_TERMS = 20
_FRESH_S = 1.0
FORMAT = 1
TERMS = "_tidemark"
"""The folder of the terms in a destination."""


@dataclass(frozen=True)
class Term:
    """A runner's hold on a destination."""

    number: int
    run: str
    host: str
    pid: int
    since: str
    ended: bool = False
    """Whether the runner ended in order and writes nothing more."""


class Fence:
    """The terms of one ledger in one destination."""

    def __init__(self, root: Folder, ledger: str) -> None:
        self._folder = root / TERMS / ledger
        self._term: Term | None = None

    def newest(self) -> Term | None:
        """The newest term; None if there is none, as in destinations of an earlier version."""
        numbers = self._numbers()
        return self._read(max(numbers)) if numbers else None

    def _numbers(self, since: int = 0) -> list[int]:
        """The terms from one number on: what a check lists does not grow with the terms before."""
        after = _name(since - 1) if since else ""
        return [int(match[1]) for entry in self._folder.entries("term-", after) if (match := _TERM.match(entry.name))]

    def take(self, term: Term) -> None:
        """Take the destination for this runner.

        Raises PipelineHeldError when another one has this term or a later one.
        """
        if max(self._numbers(), default=0) > term.number or not self._folder.create(_name(term.number), _text(term)):
            raise takeover_error(term, self.newest())
        self._term = term
        self.check()
        self._folder.delete(_name(number) for number in sorted(self._numbers())[:-_KEPT_TERMS])

    def check(self) -> int:
        """The number of this runner's term. Raises PipelineHeldError when another runner has a later one.

        It need not be the next one: a run that could not reach the destination took none here.
        """
        assert self._term is not None
        numbers = self._numbers(self._term.number)
        if self._term.number not in numbers or max(numbers) > self._term.number:
            raise takeover_error(self._term, self.newest())
        return self._term.number

    def release(self) -> None:
        """Mark this runner as ended in order."""
        if self._term is not None and self._folder.find(_name(self._term.number)) is not None:
            self._folder.write(_name(self._term.number), _text(replace(self._term, ended=True)))

    def _read(self, number: int) -> Term:
        try:
            record: dict[str, Any] = json.loads(self._folder.read(_name(number)))
            return Term(**{name: value for name, value in record.items() if name != "format"})
        except (FileNotFoundError, ValueError, TypeError) as error:
            raise MismatchError(
                f"{self._folder.url}/{_name(number)} is not a valid term file: {error!r}.",
                detail="It says who may write to the destination; nothing was written.",
                hint="Restore it from a copy. If no runner uses this destination anywhere, delete it.",
            ) from error


class FolderTerms:
    """The terms of a destination that is a folder (`destination.destination_protocol.Terms`)."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._fence: Fence | None = None
        self.own_term: Term | None = None
        """This runner's term; None before it took one."""
        self._lock = threading.Lock()
        self._answer: Future[int] | None = None
        self._asked_s = 0.0

    def newest(self, ledger: str) -> Term | None:
        """By the files in `_tidemark`."""
        return Fence(self._root, ledger).newest()

    def take(self, ledger: str, term: Term) -> None:
        """Create the term's file, which only one runner can."""
        fence = Fence(self._root, ledger)
        fence.take(term)
        self._fence = fence
        self.own_term = term
        self._answer = None

    def check(self) -> int:
        """The number of this runner's term; 0 before it took one."""
        return 0 if self._fence is None else self._fence.check()

    def check_for_commit(self) -> int:
        """As `check`, by an answer that is at most a second old, for all threads that ask in that second.

        That is enough for a commit: a late one expects a version that the later runner's own commit has taken.
        """
        with self._lock:
            now_s = clock.monotonic_s()
            answer = self._answer
            is_asked = answer is not None and now_s - self._asked_s <= _FRESH_S
            if answer is None or not is_asked:
                answer = self._answer = Future[int]()
                self._asked_s = now_s
        if not is_asked:
            try:
                answer.set_result(self.check())
            except BaseException as error:  # noqa: BLE001 - each thread raises it
                with self._lock:
                    self._answer = None
                answer.set_exception(error)
        return answer.result()

    def release(self) -> None:
        """Mark the term's file as ended."""
        if self._fence is not None:
            self._fence.release()


def ledgers(root: Folder) -> list[str]:
    """The ledgers whose runners have written to a destination."""
    return (root / TERMS).folders()


def is_known_term(newest: Term | None, ledger_terms: Iterable[tuple[int, str]]) -> bool:
    """Whether the ledger knows the destination's newest term, so that no unknown runner has written there."""
    return newest is None or (newest.number, newest.run) in set(ledger_terms)


def _name(number: int) -> str:
    return f"term-{number:08d}.json"


def _text(term: Term) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(term)}, indent=1).encode()


def takeover_error(own: Term, newest: Term | None) -> PipelineHeldError:
    """The error of a runner whose term is not the newest one."""
    other = f"run {newest.run} on {newest.host} (pid {newest.pid})" if newest else "another runner"
    return PipelineHeldError(
        f"The pipeline was taken over by {other}; this run had term {own.number}.",
        detail="Nothing was written or deleted since. The other run continues from this run's commits.",
        hint="Run one runner per pipeline. For a runner that waits for its turn: tidemark run SPEC --standby",
    )
